package promapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/prometheus/promql"
)

// statusClientClosed means that the client closed the connection before the answer, as in nginx and Prometheus.
const statusClientClosed = 499

// failure is an error of Prometheus' API: the kind is the errorType of the answer and decides its status.
type failure struct {
	kind  kind
	cause error
}

type kind struct {
	name   string
	status int
}

// The kinds of failure that occur here.
var (
	badData     = kind{"bad_data", http.StatusBadRequest}
	execution   = kind{"execution", http.StatusUnprocessableEntity}
	canceled    = kind{"canceled", statusClientClosed}
	timedOut    = kind{"timeout", http.StatusServiceUnavailable}
	internalErr = kind{"internal", http.StatusInternalServerError}
)

func refuse(cause error) *failure { return &failure{badData, cause} }

// invalid is the failure of an invalid parameter.
func invalid(parameter string, cause error) *failure {
	return refuse(fmt.Errorf("invalid parameter %q: %w", parameter, cause))
}

// failed classifies an error of the engine or of the series.
func failed(err error) *failure {
	var (
		gone    promql.ErrQueryCanceled
		late    promql.ErrQueryTimeout
		storage promql.ErrStorage
	)
	switch {
	case errors.As(err, &late), errors.Is(err, context.DeadlineExceeded):
		return &failure{timedOut, err}
	case errors.As(err, &gone), errors.Is(err, context.Canceled):
		return &failure{canceled, err}
	case errors.As(err, &storage):
		return &failure{internalErr, err}
	}
	return &failure{execution, err}
}
