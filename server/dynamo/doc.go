// Package dynamo is a plug-in of the planner of NVIDIA Dynamo (protocol 1.0), at the stage propose. It
// returns the minimum number of workers; the planner may add more.
//
// Without advice (see server.Advise), it returns no opinion, and the planner ignores the plug-in.
package dynamo
