package codec

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/forewarm/forewarm/ingest"
)

// The encoders write the compact native JSON that [Decode] reads: without unknown values, times as whole Unix
// milliseconds. They append to dst and return it, like the append functions of strconv.

// AppendRequest appends r. The hash of the session is written as session_hash.
func AppendRequest(dst []byte, r *ingest.Request) []byte { return appendRecord(dst, requestType, r) }

// AppendSum appends s; its content type is [ContentTypeSum].
func AppendSum(dst []byte, s *ingest.Sum) []byte { return appendRecord(dst, sumType, s) }

// AppendReplica appends r.
func AppendReplica(dst []byte, r *ingest.Replica) []byte { return appendRecord(dst, replicaType, r) }

// AppendAck appends a.
func AppendAck(dst []byte, a *ingest.Ack) []byte { return appendRecord(dst, ackType, a) }

// AppendWatermark appends m.
func AppendWatermark(dst []byte, m *ingest.Watermark) []byte {
	return appendRecord(dst, watermarkType, m)
}

// AppendHistory appends h.
func AppendHistory(dst []byte, h *ingest.History) []byte { return appendRecord(dst, historyType, h) }

func appendRecord[T any](dst []byte, t *recordType[T], r *T) []byte {
	dst = append(dst, '{')
	start := len(dst)
	for i := range t.members {
		before := len(dst)
		if before > start {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), t.members[i].name...), '"', ':')
		var known bool
		if dst, known = appendMember(dst, r, t.members[i].at(r)); !known {
			dst = dst[:before]
		}
	}
	return append(dst, '}')
}

// appendMember appends the value of a member of the record of; false when it is unknown, or the default.
func appendMember(dst []byte, of, from any) ([]byte, bool) {
	switch v := from.(type) {
	case *label:
		return appendString(dst, string(*v)), *v != ""
	case *string:
		return appendString(dst, *v), *v != ""
	case *time.Time:
		return strconv.AppendInt(dst, v.UnixMilli(), 10), !v.IsZero()
	case *int64:
		return strconv.AppendInt(dst, *v, 10), *v >= 0
	case *blockTokens:
		return strconv.AppendInt(dst, int64(*v), 10), *v > 0
	case *counter:
		return strconv.AppendInt(dst, int64(*v), 10), *v >= 0
	case *int:
		return strconv.AppendInt(dst, int64(*v), 10), *v >= 0
	case *attempt:
		return strconv.AppendInt(dst, int64(*v), 10), *v != 1
	case *sessionHash:
		return appendHashes(dst, uint64(*v)), *v != 0
	case *blockHashes:
		return appendHashes(dst, *v...), len(*v) > 0
	case *float64:
		return appendAmount(dst, *v), !math.IsNaN(*v)
	case *seconds:
		return appendAmount(dst, float64(*v)), !math.IsNaN(float64(*v))
	case *ratio:
		return appendAmount(dst, float64(*v)), !math.IsNaN(float64(*v))
	case *amounts:
		dst = append(dst, '[')
		for i, amount := range *v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendAmount(dst, amount)
		}
		return append(dst, ']'), true
	case *ingest.Phase:
		return appendString(dst, v.String()), !endedWell(of)
	case *ingest.Status:
		return appendString(dst, v.String()), !endedWell(of)
	case *ingest.ReplicaState:
		return appendString(dst, v.String()), true
	case *ingest.AckStage:
		return appendString(dst, v.String()), true
	}
	return dst, false // a clear session name is never kept
}

// endedWell reports whether phase and status of a request are the defaults.
func endedWell(of any) bool {
	r := of.(*ingest.Request)
	return r.Phase == ingest.PhaseFinished && r.Status == ingest.StatusOK
}

func appendHashes(dst []byte, all ...uint64) []byte {
	dst = append(dst, '"')
	for _, hash := range all {
		dst = fmt.Appendf(dst, "%016x", hash)
	}
	return append(dst, '"')
}

func appendAmount(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

// appendString appends s as a JSON string; bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}
