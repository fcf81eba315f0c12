package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting/plan"
	"github.com/forewarm/forewarm/backtest"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// planFlags are the flags of forewarm plan.
type planFlags struct {
	flags        *flag.FlagSet
	config, pool string
	model        capacity.Config // of a pool described by flags
	contexts     string

	trace   string
	options backtest.Options
	start   string
	demand  string
	stated  statedFlags
	from    string
	data    string
	days    int

	replicas, prefill int
	launch            plan.Change
	retry             float64
	ramp              time.Duration
	waiting           float64

	format, out string
}

func runPlan(ctx context.Context, args []string, std streams) error {
	f := flag.NewFlagSet("plan", flag.ContinueOnError)
	p := planFlags{launch: plan.Same}
	p.flags = f
	p.define(f)
	if err := parseOnly(f, args, std); err != nil {
		return err
	}
	given, values := map[string]bool{}, map[string]string{}
	f.Visit(func(x *flag.Flag) { given[x.Name], values[x.Name] = true, x.Value.String() })
	if err := p.check(given); err != nil {
		return err
	}
	if given["from"] {
		return p.askLive(ctx, values, std)
	}
	pool, waiting, err := p.describedPool(given)
	if err != nil {
		return err
	}
	if !p.hasTraffic(given) {
		return p.printMemory(pool, std)
	}
	in := plan.Input{Pool: plan.Pool{Pool: pool, Replicas: p.replicas, Prefill: p.prefill, WaitingPerReplica: waiting}, Launch: p.launch, Ramp: p.ramp, Fit: pool.Fit}
	in.Launch.Retry = p.retry
	if in.Today.IsZero() {
		in.Today = time.Now().UTC()
	}
	if err := p.readTraffic(ctx, &in, given, std); err != nil {
		return err
	}
	if in.Pool.Replicas == 0 {
		in.Pool.Replicas = pool.Replicas.Initial
	}
	if pool.Disaggregated && in.Pool.Prefill == 0 {
		in.Pool.Prefill = pool.PrefillReplicas.Initial
	}
	if err := p.readContexts(&in.Lengths); err != nil {
		return err
	}
	sheet, err := plan.New(in)
	if err != nil {
		return usageError{err}
	}
	write := map[string]func(io.Writer, *plan.Sheet) error{"md": plan.WriteMarkdown, "json": plan.WriteJSON, "html": plan.WriteHTML}[p.format]
	return writeTo(p.out, std.out, func(w io.Writer) error { return write(w, sheet) })
}

func (p *planFlags) define(f *flag.FlagSet) {
	f.StringVar(&p.config, "config", "", "configuration `file` whose pool is planned")
	f.StringVar(&p.pool, "pool", "", "`name` of the pool (default: the configuration's only one, or pool)")

	m := &p.model
	f.StringVar(&m.ModelConfig, "model", "", "the model's config.json `file`, in place of -config")
	f.StringVar(&m.GPU.Type, "gpu", "", "`type` of GPU, such as h100-80g, or its memory, such as 80GiB")
	f.Func("gpus", "`number` of GPUs of a replica (default: -tp · -pp · -dp)", func(s string) (err error) {
		m.GPU.PerReplica, err = atLeastOne(s)
		return err
	})
	f.IntVar(&m.GPU.Pipeline, "pp", 1, "pipeline stages of a replica")
	f.IntVar(&m.GPU.Data, "dp", 1, "data-parallel ranks of a replica")
	f.Func("tp", "tensor-parallel `ranks` of a replica (default 1)", func(s string) (err error) {
		m.GPU.PerReplica, err = atLeastOne(s)
		m.GPU.PerReplica = -m.GPU.PerReplica // by sign: times -pp and -dp
		return err
	})
	f.BoolVar(&m.GPU.ExpertParallel, "ep", false, "experts are whole on a rank")
	f.StringVar(&m.KVDType, "kv-dtype", "", "`dtype` of the KV cache (default: the model's)")
	f.StringVar(&m.GPU.WeightsDType, "weights-dtype", "", "`dtype` of the weights (default: the checkpoint's)")
	f.StringVar(&m.GPU.Weights, "weights", "", "`size` of the checkpoint, such as 132GiB (default: counted)")
	f.StringVar(&m.GPU.Workspace, "workspace", "", "`size` of activations and buffers on a GPU (default: estimated)")
	f.Float64Var(&m.GPU.Utilization, "utilization", 0.9, "`share` of the memory that the engine may use")
	f.Float64Var(&m.Fragmentation, "fragmentation", 0, "`share` of the cache lost to partly filled blocks")
	f.IntVar(&m.GPU.Adapters, "adapters", 0, "LoRA `adapters` held on a GPU")
	f.IntVar(&m.GPU.AdapterRank, "adapter-rank", 16, "`rank` of the largest adapter")
	f.IntVar(&m.MaxNumSeqs, "max-num-seqs", 256, "requests at once on a replica")
	f.IntVar(&m.KVCapacityTokens, "kv-capacity-tokens", 0, "`tokens` of a replica's KV cache, as the engine prints them (default: counted)")
	f.Float64Var(&m.KVTarget, "kv-target", 0.85, "`share` of the cache that is safe to fill")
	f.Float64Var(&m.PrefillTokensPerS, "prefill-tokens-per-s", 0, "prompt tokens a second of a replica that does nothing else")
	f.Float64Var(&m.PrefillTarget, "prefill-target", 0.7, "`share` of that rate to plan with: beyond, prompts queue")
	f.Float64Var(&m.DecodeTokensPerS, "decode-tokens-per-s", 0, "output tokens a second of a replica within its objective")
	f.Float64Var(&m.MaxRequestsPerS, "max-requests-per-s", 0, "requests a second of a replica at most")
	f.StringVar(&m.CurveFile, "curve", "", "benchmark `file` of one replica: GuideLLM, AIPerf, GenAI-Perf, vllm bench serve, or CSV")
	f.DurationVar(&m.SLO.TTFT, "slo-ttft", 0, "time to the first token that is promised, by which the curve is read")
	f.DurationVar(&m.SLO.ITL, "slo-itl", 0, "time per output token that is promised (default: -itl)")
	f.IntVar(&m.ContextTokens, "context-tokens", 0, "`tokens` of a request, for which the curve is read (default: those of the traffic where it is stated)")
	f.DurationVar(&m.ITL, "itl", 25*time.Millisecond, "time per output token")
	f.Float64Var(&m.Limits.RequestsPerMin, "limit-requests-per-min", 0, "rate limit of the whole pool")
	f.Float64Var(&m.Limits.TokensPerMin, "limit-tokens-per-min", 0, "token quota of the whole pool")
	f.Float64Var(&m.GPUHourUSD, "gpu-hour-usd", 0, "price of a GPU for an hour")
	f.Float64Var(&m.BudgetHourUSD, "budget-hour-usd", 0, "most the pool may cost an hour")
	f.StringVar(&m.Prices.Date, "prices-date", "", "`day` on which prices were taken, YYYY-MM-DD")
	f.StringVar(&m.Prices.Region, "prices-region", "", "`region` they are of")
	f.DurationVar(&m.Warmup.P50, "warmup-p50", 6*time.Minute, "median warm-up of a replica")
	f.DurationVar(&m.Warmup.P90, "warmup-p90", 12*time.Minute, "90th percentile of the warm-up")
	f.IntVar(&m.Replicas.Max, "max-replicas", 0, "replicas there may be (default: four times -replicas)")
	f.IntVar(&m.Reserves.Failure, "reserve", 0, "replicas kept for failures")
	f.StringVar(&p.contexts, "contexts", "", "median, 95th percentile and longest `tokens` of a request, such as 2000,8000,32000 (default: of the traffic)")

	f.StringVar(&p.trace, "trace", "", "trace `file` with the traffic, in any format that backtest reads")
	f.StringVar(&p.start, "start", "", "`time` of t_s = 0 in the trace, RFC 3339 (default: a Monday, midnight UTC)")
	f.StringVar(&p.demand, "demand", "", "YAML `file` with stated classes")
	p.stated.define(f)
	f.StringVar(&p.from, "from", "", "`URL` of a running daemon, which plans one of its pools: with its traffic, replicas, rates and bounds")
	f.StringVar(&p.data, "data", "", "data `directory` of a daemon that does not run, whose traffic, replicas and rates are taken")
	f.IntVar(&p.days, "days", 7, "newest days of -data")

	f.IntVar(&p.replicas, "replicas", 0, "replicas there are (default: of the daemon, or the configuration's initial ones)")
	f.IntVar(&p.prefill, "prefill-replicas", 0, "prefill replicas there are; with -model they make the pool a disaggregated one, which may have four times as many")
	f.Float64Var(&p.launch.Rate, "launch", 3, "`factor` of the launch on requests")
	f.Float64Var(&p.launch.Prompt, "launch-prompt", 1, "`factor` of the launch on prompt lengths")
	f.Float64Var(&p.launch.Output, "launch-output", 1, "`factor` of the launch on output lengths")
	f.Float64Var(&p.launch.CacheHit, "launch-cache-hit", 1, "`factor` of the launch on the cache hit ratio")
	f.Float64Var(&p.retry, "launch-retry", 0, "more attempts at the launch than now, as a `share` of those")
	f.DurationVar(&p.ramp, "ramp", 20*time.Minute, "time until all of a change has come; 0s is at once")
	f.Float64Var(&p.waiting, "waiting-per-replica", 4, "queued requests that a replica may have")

	f.StringVar(&p.format, "format", "md", "md, json or html")
	f.StringVar(&p.out, "o", "", "write to `file` instead of standard output")
}

func atLeastOne(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, errors.New("it must be a whole number from 1 on")
	}
	return n, nil
}

// sources of traffic, by their flags.
var trafficFlags = []string{"trace", "demand", "requests-per-s", "from", "data"}

func (p *planFlags) hasTraffic(given map[string]bool) bool {
	for _, name := range trafficFlags {
		if given[name] {
			return true
		}
	}
	return false
}

func (p *planFlags) check(given map[string]bool) error {
	var sources []string
	for _, name := range trafficFlags {
		if given[name] {
			sources = append(sources, "-"+name)
		}
	}
	switch {
	case len(sources) > 1:
		return usagef("give one of %s", strings.Join(sources, ", "))
	case p.format != "md" && p.format != "json" && p.format != "html":
		return usagef("-format is %q: it must be md, json or html", p.format)
	case p.config != "" && given["model"]:
		return usagef("give -config or -model, not both")
	case p.config == "" && !given["model"] && len(sources) == 0:
		if _, err := capacity.GPUMemory(p.model.GPU.Type); given["gpu"] && err != nil {
			return usagef("-gpu: %w", err)
		}
		return usagef("say what to plan: -model config.json -gpu h100-80g for a replica's memory, and traffic by -trace, -requests-per-s, -demand, -from or -data for a launch sheet")
	case given["model"] && p.model.GPU.Type == "" && p.model.KVCapacityTokens == 0:
		return usagef("-gpu is missing: name its type or memory, such as h100-80g")
	case p.days < 1 || p.days > 400:
		return usagef("-days is %d: it must be 1 to 400", p.days)
	case p.ramp < 0:
		return usagef("-ramp is %s: it must not be negative", p.ramp)
	}
	for name, bound := range map[string]struct{ v, min int }{"replicas": {p.replicas, 0}, "prefill-replicas": {p.prefill, 0}, "max-replicas": {p.model.Replicas.Max, 0}, "pp": {p.model.GPU.Pipeline, 1}, "dp": {p.model.GPU.Data, 1}} {
		if bound.v < bound.min || bound.v > 100_000 {
			return usagef("-%s is %d: it must be %d to 100000", name, bound.v, bound.min)
		}
	}
	for name, v := range map[string]float64{"launch": p.launch.Rate, "launch-prompt": p.launch.Prompt, "launch-output": p.launch.Output} {
		if !(v > 0 && v <= 1000) {
			return usagef("-%s is %g: it must be a factor above 0, up to 1000", name, v)
		}
	}
	for name, v := range map[string]float64{"launch-cache-hit": p.launch.CacheHit, "launch-retry": p.retry, "waiting-per-replica": p.waiting} {
		if !(v >= 0 && v <= 1000) {
			return usagef("-%s is %g: it must be 0 to 1000", name, v)
		}
	}
	if given["requests-per-s"] {
		return p.readStated(new(plan.Input))
	}
	return nil
}
