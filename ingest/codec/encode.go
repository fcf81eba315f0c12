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
		m := memberOf(r, t.members[i].at(r))
		if m.kind == 0 || m.kind == 'b' || m.kind == 'B' { // unknown, or not in JSON
			continue
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), t.members[i].name...), '"', ':')
		dst = m.append(dst)
	}
	return append(dst, '}')
}

func (m *memberValue) append(dst []byte) []byte {
	switch m.kind {
	case 'l', '"', 'e':
		return appendString(dst, m.text)
	case 't':
		return strconv.AppendInt(dst, m.time.UnixMilli(), 10)
	case '0':
		return strconv.AppendInt(dst, m.whole, 10)
	case '.':
		return appendAmount(dst, m.amount)
	case 'h':
		return fmt.Appendf(dst, `"%016x"`, uint64(m.whole))
	}
	dst = append(dst, '[')
	for i, amount := range m.amounts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendAmount(dst, amount)
	}
	return append(dst, ']')
}

// memberValue is the written value of a member: its kind, and the value of that kind.
type memberValue struct {
	kind    byte // 0 for nothing, l label, " string, t time, 0 whole, . amount, h hash, e enumeration, b block tokens, B hashes, [ amounts
	text    string
	time    time.Time
	whole   int64
	amount  float64
	hashes  []uint64
	amounts []float64
}

// memberOf returns the written value of a member of the record of, for both encodings.
func memberOf(of, from any) (m memberValue) {
	count := func(kind byte, n int64, known bool) {
		if known {
			m.kind, m.whole = kind, n
		}
	}
	enum := func(n uint8, name string, known bool) {
		if known {
			m.kind, m.whole, m.text = 'e', int64(n), name
		}
	}
	amount := func(f float64) {
		if !math.IsNaN(f) && !math.IsInf(f, 0) {
			m.kind, m.amount = '.', f
		}
	}
	switch v := from.(type) {
	case *label:
		if *v != "" {
			m.kind, m.text = 'l', string(*v)
		}
	case *string:
		if *v != "" {
			m.kind, m.text = '"', *v
		}
	case *time.Time:
		if !v.IsZero() {
			m.kind, m.time = 't', *v
		}
	case *int64:
		count('0', *v, *v >= 0)
	case *counter:
		count('0', int64(*v), *v >= 0)
	case *int:
		count('0', int64(*v), *v >= 0)
	case *attempt:
		count('0', int64(*v), *v != 1)
	case *sessionHash:
		count('h', int64(*v), *v != 0)
	case *blockTokens:
		count('b', int64(*v), *v > 0)
	case *hashes:
		if len(*v) > 0 {
			m.kind, m.hashes = 'B', *v
		}
	case *float64:
		amount(*v)
	case *seconds:
		amount(float64(*v))
	case *ratio:
		amount(float64(*v))
	case *amounts:
		m.kind, m.amounts = '[', *v
	case *ingest.Phase:
		enum(uint8(*v), v.String(), !endedWell(of))
	case *ingest.Status:
		enum(uint8(*v), v.String(), !endedWell(of))
	case *ingest.ReplicaState:
		enum(uint8(*v), v.String(), true)
	case *ingest.AckStage:
		enum(uint8(*v), v.String(), true)
	}
	return m // a clear session name is never kept
}

// endedWell reports whether phase and status of a request are the defaults.
func endedWell(of any) bool {
	r := of.(*ingest.Request)
	return r.Phase == ingest.PhaseFinished && r.Status == ingest.StatusOK
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
