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

// Append appends a record: an [ingest.Request], Sum, Replica, Ack, Watermark or History. The content type of a Sum is
// [ContentTypeSum]. The hash of a session is written as session_hash.
func Append[T ingest.Request | ingest.Sum | ingest.Replica | ingest.Ack | ingest.Watermark | ingest.History](dst []byte, r *T) []byte {
	switch r := any(r).(type) {
	case *ingest.Request:
		return appendRecord(dst, requestType, r)
	case *ingest.Sum:
		return appendRecord(dst, sumType, r)
	case *ingest.Replica:
		return appendRecord(dst, replicaType, r)
	case *ingest.Ack:
		return appendRecord(dst, ackType, r)
	case *ingest.Watermark:
		return appendRecord(dst, watermarkType, r)
	case *ingest.History:
		return appendRecord(dst, historyType, r)
	}
	return dst
}

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

// memberOf returns the written value of a member of the record of, for both encodings. Default values of phase and status
// are not written.
func memberOf(of, from any) (m memberValue) {
	known := false
	switch v := from.(type) {
	case *label:
		m.kind, m.text, known = 'l', string(*v), *v != ""
	case *string:
		m.kind, m.text, known = '"', *v, *v != ""
	case *time.Time:
		m.kind, m.time, known = 't', *v, !v.IsZero()
	case *int64:
		m.kind, m.whole, known = '0', *v, *v >= 0
	case *counter:
		m.kind, m.whole, known = '0', int64(*v), *v >= 0
	case *int:
		m.kind, m.whole, known = '0', int64(*v), *v >= 0
	case *attempt:
		m.kind, m.whole, known = '0', int64(*v), *v != 1
	case *sessionHash:
		m.kind, m.whole, known = 'h', int64(*v), *v != 0
	case *blockTokens:
		m.kind, m.whole, known = 'b', int64(*v), *v > 0
	case *hashes:
		m.kind, m.hashes, known = 'B', *v, len(*v) > 0
	case *float64:
		m.kind, m.amount, known = '.', *v, isFinite(*v)
	case *seconds:
		m.kind, m.amount, known = '.', float64(*v), isFinite(float64(*v))
	case *ratio:
		m.kind, m.amount, known = '.', float64(*v), isFinite(float64(*v))
	case *amounts:
		m.kind, m.amounts, known = '[', *v, true
	case *ingest.Phase:
		m.kind, m.whole, m.text, known = 'e', int64(*v), v.String(), !endedWell(of)
	case *ingest.Status:
		m.kind, m.whole, m.text, known = 'e', int64(*v), v.String(), !endedWell(of)
	case *ingest.ReplicaState:
		m.kind, m.whole, m.text, known = 'e', int64(*v), v.String(), true
	case *ingest.AckStage:
		m.kind, m.whole, m.text, known = 'e', int64(*v), v.String(), true
	}
	if !known { // as is the clear name of a session, which is never kept
		m.kind = 0
	}
	return m
}

// endedWell reports whether phase and status of a request are the defaults.
func endedWell(of any) bool {
	r := of.(*ingest.Request)
	return r.Phase == ingest.PhaseFinished && r.Status == ingest.StatusOK
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

func appendAmount(dst []byte, f float64) []byte {
	if !isFinite(f) {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

// appendString appends s as a JSON string; bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}
