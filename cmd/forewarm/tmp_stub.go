package main

import "context"

func demo(ctx context.Context, args []string, std streams) error        { return nil }
func runBacktest(ctx context.Context, args []string, std streams) error { return nil }
