package server

import (
	"bytes"
	"cmp"
	"context"
	"net/http"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

type forecastBasisJSON struct {
	forecaster.Explanation
	Unit string `json:"unit"`
}

// getForecastBasis answers with the basis of one forecast: ?pool=chat&class=agent&dimension=kv. The default class is
// the whole pool. The default dimension is the binding resource, or else the first one.
func (s *Server) getForecastBasis(r *http.Request) (any, error) {
	p, err := s.find(r.FormValue("pool"))
	if err != nil {
		return nil, err
	}
	class, dimension := cmp.Or(r.FormValue("class"), features.TotalClass), r.FormValue("dimension")
	if dimension == "" && p.Projection != nil {
		dimension = p.Projection.Binding
	}
	for i := range p.Forecasts {
		if f := &p.Forecasts[i]; f.Class == class && (dimension == "" || f.Dimension == dimension) {
			return forecastBasisJSON{forecaster.Explain(f), unit(f.Dimension)}, nil
		}
	}
	return nil, Problemf(http.StatusNotFound, "no forecast of class %q and dimension %q; /api/v1/pools/%s/forecast lists those there are", class, dimension, p.Pool)
}

// getExplanation answers with the explanation of a decision; ?format=text for terminals.
func (s *Server) getExplanation(r *http.Request) (any, error) {
	x, err := s.explain(r.Context(), r.PathValue("id"))
	switch format := r.FormValue("format"); format {
	case "", "json":
		return x, err
	case "text":
		if err == nil {
			var b bytes.Buffer
			err = x.WriteText(&b)
			return plainText(b.String()), err
		}
	default:
		err = Problemf(http.StatusBadRequest, "format is %q: it must be json or text", format)
	}
	return nil, err
}

func (s *Server) explain(ctx context.Context, ref string) (alerting.Explanation, error) {
	if s.Explain == nil {
		return alerting.Explanation{}, Problemf(http.StatusNotFound, "there is no log of decisions")
	}
	return s.Explain(ctx, ref)
}
