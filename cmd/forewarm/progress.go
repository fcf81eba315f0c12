package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows the progress of long work if w is a terminal.
type progress struct {
	w     io.Writer
	label string
	bar   *progressbar.ProgressBar
}

// show sets how much of the work that label names is done.
func (p *progress) show(label string, done, total int64) {
	if f, ok := p.w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return
	}
	if p.label != label {
		p.finish()
		p.label, p.bar = label, progressbar.NewOptions64(total,
			progressbar.OptionSetDescription(label), progressbar.OptionSetWriter(p.w), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetPredictTime(true), progressbar.OptionShowElapsedTimeOnFinish(), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetWidth(30), progressbar.OptionFullWidth(),
		)
	}
	_ = p.bar.Set64(done) // an error in drawing does not matter
}

func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
