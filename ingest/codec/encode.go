package codec

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/forewarm/forewarm/ingest"
)

// The encoders write the compact native JSON that [Decode] reads back: what is unknown is left out, times are Unix
// milliseconds (finer parts are dropped). They append to dst and return it, as the append functions of strconv do.

// AppendRequest appends r. The session, of which only the hash is left, is written as session_hash.
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
	for _, m := range t.members {
		if from := m.at(r); isKnown(r, from) {
			if len(dst) > start {
				dst = append(dst, ',')
			}
			dst = append(append(append(dst, '"'), m.name...), '"', ':')
			dst = appendMember(dst, from)
		}
	}
	return append(dst, '}')
}

// isKnown says whether the record of has something to write of a member.
func isKnown(of, from any) bool {
	switch v := from.(type) {
	case *label:
		return *v != ""
	case *string:
		return *v != ""
	case *time.Time:
		return !v.IsZero()
	case *int64:
		return *v >= 0
	case *counter:
		return *v >= 0
	case *int:
		return *v >= 0
	case *attempt:
		return *v != 1
	case *float64:
		return !math.IsNaN(*v) && !math.IsInf(*v, 0)
	case *seconds:
		return isKnown(of, (*float64)(v))
	case *ratio:
		return isKnown(of, (*float64)(v))
	case *sessionHash:
		return *v != 0
	case *ingest.Phase, *ingest.Status:
		r := of.(*ingest.Request)
		return r.Phase != ingest.PhaseFinished || r.Status != ingest.StatusOK
	case *ingest.ReplicaState, *ingest.AckStage, *amounts:
		return true
	}
	return false // a clear name, which is not kept, or what JSON does not carry
}

func appendMember(dst []byte, from any) []byte {
	switch v := from.(type) {
	case *label:
		return appendString(dst, string(*v))
	case *string:
		return appendString(dst, *v)
	case *time.Time:
		return strconv.AppendInt(dst, v.UnixMilli(), 10)
	case *int64:
		return strconv.AppendInt(dst, *v, 10)
	case *counter:
		return strconv.AppendInt(dst, int64(*v), 10)
	case *int:
		return strconv.AppendInt(dst, int64(*v), 10)
	case *attempt:
		return strconv.AppendInt(dst, int64(*v), 10)
	case *float64:
		return appendAmount(dst, *v)
	case *seconds:
		return appendAmount(dst, float64(*v))
	case *ratio:
		return appendAmount(dst, float64(*v))
	case *sessionHash:
		dst = hex.AppendEncode(append(dst, '"'), binary.BigEndian.AppendUint64(nil, uint64(*v)))
		return append(dst, '"')
	case *ingest.Phase:
		return appendString(dst, v.String())
	case *ingest.Status:
		return appendString(dst, v.String())
	case *ingest.ReplicaState:
		return appendString(dst, v.String())
	case *ingest.AckStage:
		return appendString(dst, v.String())
	case *amounts:
		dst = append(dst, '[')
		for i, amount := range *v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendAmount(dst, amount)
		}
		return append(dst, ']')
	}
	return dst
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
