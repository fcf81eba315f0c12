// Package keda answers KEDA as an external scaler, for triggers of type external and external-push: the metric is the
// number of replicas that a pool should have, and its target one a replica, so that the Horizontal Pod Autoscaler comes to
// that number.
//
// Where there is no advice that may be obeyed (see server.Advise) the answer is an error that says why, never a number:
// KEDA then applies the fallback of the ScaledObject, and without one the autoscaler keeps what it has.
package keda
