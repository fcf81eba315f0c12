package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress shows the progress of long work if w is a terminal.
type progress struct {
	w     io.Writer
	shown time.Time // when the line was last written; zero without a line
}

// show sets how much of the work that label names is done.
func (p *progress) show(label string, done, total int64) {
	f, ok := p.w.(*os.File)
	if !ok || total <= 0 || time.Since(p.shown) < 100*time.Millisecond || !term.IsTerminal(int(f.Fd())) {
		return
	}
	p.shown = time.Now()
	fmt.Fprintf(f, "\r%s %d %%\x1b[K", label, 100*done/total) // the end clears the rest of the line
}

// finish removes the line.
func (p *progress) finish() {
	if !p.shown.IsZero() {
		p.shown = time.Time{}
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
