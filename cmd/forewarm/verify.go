package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"

	"github.com/forewarm/forewarm/storage"
)

// verify reads all of a data directory and says in one line each what it found; with -repair it mends what is damaged.
// It fails while damage remains.
func verify(ctx context.Context, args []string, std streams) error {
	f := flag.NewFlagSet("verify", flag.ContinueOnError)
	repair := f.Bool("repair", false, "cut or put aside what is damaged, so that a daemon can start; nothing is deleted")
	dirs, err := parse(f, args, std)
	if err != nil {
		return err
	}
	if len(dirs) != 1 {
		return usagef("name one data directory, as storage.dir does: forewarm verify [-repair] DIR")
	}
	counts := map[storage.Condition]int{}
	err = storage.Verify(ctx, dirs[0], *repair, func(x storage.Finding) {
		counts[x.Condition]++
		fmt.Fprintf(std.out, "%-8s  %s: %s\n", x.Condition, x.Path, x.Detail)
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return usageError{err}
	case err != nil:
		return err
	}
	if n := counts[storage.Damaged]; n > 0 {
		return fmt.Errorf("%s: %d damaged, %d sound, %d repaired: what to do is said with each", dirs[0], n, counts[storage.Sound], counts[storage.Repaired])
	}
	return nil
}
