package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows the progress of long work if w is a terminal. A nil progress shows nothing.
type progress struct{ bar *progressbar.ProgressBar }

func newProgress(w io.Writer, label string, total int64) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &progress{progressbar.NewOptions64(total,
		progressbar.OptionSetDescription(label), progressbar.OptionSetWriter(w), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetPredictTime(true), progressbar.OptionShowElapsedTimeOnFinish(), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetWidth(30), progressbar.OptionFullWidth(),
	)}
}

func (p *progress) set(done int64) {
	if p != nil {
		_ = p.bar.Set64(done) // an error in drawing does not matter
	}
}

func (p *progress) finish() {
	if p != nil {
		_ = p.bar.Finish()
	}
}
