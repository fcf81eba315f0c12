# Only Go and make are needed, except for lint (golangci-lint v2).

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
# The race detector needs a C compiler.
RACE    := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)
FUZZTIME ?= 30s

# Packages that start no goroutine (see docs/packages.md; a test checks it). Their own tests need no race detector,
# which makes them five times slower. The tests of their callers use it.
MODULE := github.com/forewarm/forewarm
SEQUENTIAL := $(addprefix $(MODULE)/,alerting alerting/plan alerting/report backtest features features/sketch forecaster \
            forecaster/capacity forecaster/model forecaster/network ingest ingest/codec internal/draw pipeline)

# Tests of the whole program start processes, which are built without the race detector. Scenarios of internal/daemon replay
# hours of traffic, and look at what is decided: the race detector sees the same goroutines in its other tests, ten times faster.
PROGRAM   := $(MODULE)/cmd/forewarm
DAEMON    := $(MODULE)/internal/daemon
SCENARIOS := ^TestScenario

.PHONY: build test test-long test-keda-scaler lint ablation held-out bench bench-accuracy bench-policies bench-alarms bench-learned microbench fuzz cover clean

build: ## a static binary in bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.release=$(VERSION)' -o bin/forewarm ./cmd/forewarm

test: ## vet and all tests; every change must pass them
	$(if $(RACE),,@echo 'no C compiler: testing without the race detector')
	$(GO) vet ./...
	$(GO) test -timeout 20m -parallel 4 $(PROGRAM) $(SEQUENTIAL)
	$(GO) test -timeout 20m -parallel 4 -run '$(SCENARIOS)' $(DAEMON)
	$(GO) test $(RACE) -timeout 20m -parallel 4 -skip '$(SCENARIOS)' $(DAEMON) $(filter-out $(SEQUENTIAL) $(PROGRAM) $(DAEMON),$(shell $(GO) list ./...))

KILLS ?= 100
test-long: ## faults of two daemons on one log, KILLS random kills, and clock jumps; prints the table of docs/durability.md
	FOREWARM_KILLS=$(KILLS) $(GO) test -run '^Test(Faults|ClockJumps)$$' -v -count 1 -timeout 1h ./cmd/forewarm

test-keda-scaler: ## queries the daemon with the scalers of KEDA's operator; downloads some of KEDA's modules
	deploy/test/kedascaler/run

lint:
	golangci-lint run ./...

# FOREWARM_AUGURS=DIR also measures refits with augurs; run npm install @bsull/augurs in DIR first.
# DAY is the length of the run with ten thousand classes, minutes; a whole day takes about an hour.
DAY ?= 30
bench: ## writes the table of BENCHMARKS.md; takes some minutes on an idle machine
	$(GO) test -run '^TestBenchmarkTable$$' -count 1 -timeout 3h ./cmd/forewarm -args -table $(CURDIR)/BENCHMARKS.md -day $(DAY)

bench-accuracy: ## writes the accuracy section of BENCHMARKS.md: TRACES=directory of public traces; PEERS=directory with other forecasters and their forecasts; PEER_SET=fast, slow or all to run missing forecasts, which takes hours
	$(GO) test -run '^TestPeers$$' -count 1 -timeout 24h ./backtest -args -traces $(TRACES) -peers '$(PEERS)' -peer-set '$(PEER_SET)' -table $(CURDIR)/BENCHMARKS.md

ablation: ## prints the benefit of each part of the model: TRACES=directory of public traces
	FOREWARM_ABLATION=1 FOREWARM_TRACES=$(TRACES) $(GO) test -run '^TestAblation$$' -v -count 1 -timeout 2h ./forecaster

# Groups of traces that are held out together. EPOCHS is the length of each training without one group.
EPOCHS   ?= 10
HELD_OUT := agentic,nasa,sageserve azure2024,deepseek,worldcup98 sg,mm
held-out: ## trains the network without each group of traces and prints its accuracy on that group: TRACES=directory of public traces; EPOCHS=4 takes a quarter of an hour on two cores
	@set -e; dir=$$(mktemp -d); trap 'rm -rf $$dir' EXIT; for groups in $(HELD_OUT); do \
	  forecaster/network/train/train.py -traces $(TRACES) -samples $$dir/samples -without $$groups -epochs $(EPOCHS) -o $$dir/weights; \
	  FOREWARM_ACCURACY=check FOREWARM_ACCURACY_STEP=15 FOREWARM_ACCURACY_NET=$$dir/weights FOREWARM_ACCURACY_ONLY=$$groups \
	    FOREWARM_TRACES=$(TRACES) $(GO) test -run '^TestAccuracy$$' -v -count 1 -timeout 1h ./forecaster; \
	done

bench-policies: ## writes the section of BENCHMARKS.md on scaling policies: TRACES=directory of public traces; POOLS=expression for some of them, printed only; DRAWS=number of seeds
	$(GO) test -run '^TestPolicyBenchmark$$' -v -count 1 -timeout 24h ./backtest -args -policies -traces $(TRACES) -pools '$(POOLS)' -draws $(or $(DRAWS),1) -table $(CURDIR)/BENCHMARKS.md

bench-alarms: ## prints the share of announced saturations for pools of fixed size: TRACES=directory of public traces; POOLS=expression for some of them; THIRD=2 or 3 of each trace
	$(GO) test -run '^TestAlarmBenchmark$$' -v -count 1 -timeout 24h ./backtest -args -alarms -traces $(TRACES) -pools '$(POOLS)' -third $(or $(THIRD),3)

bench-learned: ## prints the error of learned service rates and warm-up lags for known true values
	$(GO) test -run '^Test(Planted|WarmupFromRequests)' -v -count 1 ./forecaster/capacity ./pipeline

microbench: ## every Go benchmark
	$(GO) test -run '^$$' -bench . -benchmem ./...

fuzz: ## every fuzz target for FUZZTIME each
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "$$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg; \
	  done; \
	done

cover:
	$(GO) test -coverprofile=cover.out ./... && $(GO) tool cover -func=cover.out | tail -1

clean:
	rm -rf bin dist cover.out
