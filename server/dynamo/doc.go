// Package dynamo is a plug-in of the planner of NVIDIA Dynamo (protocol 1.0), at the stages predict and propose.
//
// Propose says how many workers the planner should have at least. It never says at most, nor exactly: what else the planner
// knows can only add to it. Predict says how many requests, of which lengths, the planner should provide for.
//
// Where there is no advice that may be obeyed (see server.Advise), both have no opinion, which the planner takes as if the
// plug-in were not there.
package dynamo
