// Package dynamo is a plug-in of the planner of NVIDIA Dynamo (protocol 1.0), at the stages predict and propose.
//
// Propose returns the minimum number of workers; the planner may add more. Predict returns the number and lengths of
// the requests that the planner should provide for.
//
// Without advice (see server.Advise), both return no opinion, and the planner ignores the plug-in.
package dynamo
