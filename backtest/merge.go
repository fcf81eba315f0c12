package backtest

import (
	"errors"
	"io"
	"slices"
)

// Merge joins streams in order of time, ties in the order given. O(streams) per item.
func Merge(streams ...Items) Items {
	if len(streams) == 1 {
		return streams[0]
	}
	m := &merged{}
	for _, s := range streams {
		m.heads = append(m.heads, &head{items: s})
	}
	return m
}

type merged struct{ heads []*head }

// head is a stream with its next item.
type head struct {
	items  Items
	item   Item
	filled bool
}

func (m *merged) Next(it *Item) error {
	var first *head
	for i := 0; i < len(m.heads); i++ {
		h := m.heads[i]
		if !h.filled {
			if err := h.items.Next(&h.item); errors.Is(err, io.EOF) {
				m.heads = slices.Delete(m.heads, i, i+1)
				i--
				continue
			} else if err != nil {
				return err
			}
			h.filled = true
		}
		if first == nil || h.item.At().Before(first.item.At()) {
			first = h
		}
	}
	if first == nil {
		return io.EOF
	}
	*it, first.filled = first.item, false
	return nil
}
