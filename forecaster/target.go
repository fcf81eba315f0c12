package forecaster

// target is the mean of one minute (from == to), or the largest minute of a span. Minutes are leads counted from 1.
type target struct{ from, to int }

// targets are the leads of the network, and the window maximum. Minutes in between are interpolated: distributions
// change slowly with the lead.
var targets = [...]target{
	{1, 1}, {2, 2}, {3, 3}, {5, 5}, {8, 8}, {11, 11}, {15, 15}, {18, 18}, {22, 22}, {26, 26}, {30, 30}, {40, 40},
	{50, 50}, {Horizon, Horizon},
	{WindowFrom, WindowTo},
}

const (
	numTargets = len(targets)
	windowMax  = numTargets - 1 // index of the window maximum
	numLeads   = numTargets - 1 // single leads come first
	midLead    = 6              // index of the lead of 15 minutes
)

// interpolate fills all minutes from the quantiles at the single leads, linearly in the lead.
func interpolate(at *[numTargets]Quantiles, minutes *[Horizon]Quantiles) {
	k := 0
	for h := 1; h <= Horizon; h++ {
		for targets[k].to < h {
			k++
		}
		if targets[k].to == h {
			minutes[h-1] = at[k]
			continue
		}
		a, b := targets[k-1].to, targets[k].to
		f := float64(h-a) / float64(b-a)
		for i := range minutes[h-1] {
			minutes[h-1][i] = at[k-1][i] + f*(at[k][i]-at[k-1][i])
		}
	}
}
