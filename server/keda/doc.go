// Package keda is an external scaler for KEDA, for triggers of type external and external-push. The metric is the
// number of replicas that a pool should have, and its target is 1 per replica, so the Horizontal Pod Autoscaler
// computes that number.
//
// Without advice (see server.Advise) the answer is an error with the reason, never a number: KEDA then applies the
// fallback of the ScaledObject; without one, the autoscaler keeps its replicas.
package keda
