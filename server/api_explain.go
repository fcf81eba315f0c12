package server

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

type explanationJSON struct {
	forecaster.Explanation
	Unit string `json:"unit"`
}

// getExplanation answers what one forecast rests on: ?pool=chat&class=agent&dimension=kv. Without a class it is that of the
// whole pool, without a dimension that of the resource that binds, or else the first one. ?id= is a decision: see there.
func (s *Server) getExplanation(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if id := query.Get("id"); id != "" {
		http.Redirect(w, r, "/api/v1/explain/"+url.PathEscape(id), http.StatusSeeOther)
		return
	}
	p := s.find(w, query.Get("pool"))
	if p == nil {
		return
	}
	class, dimension := query.Get("class"), query.Get("dimension")
	if class == "" {
		class = features.TotalClass
	}
	if dimension == "" && p.Projection != nil {
		dimension = p.Projection.Binding
	}
	for i := range p.Forecasts {
		if f := &p.Forecasts[i]; f.Class == class && (dimension == "" || f.Dimension == dimension) {
			s.writeJSON(w, http.StatusOK, explanationJSON{forecaster.Explain(f), unit(f.Dimension)})
			return
		}
	}
	s.writeJSON(w, http.StatusNotFound, map[string]string{
		"error": fmt.Sprintf("no forecast of class %q and dimension %q; /api/v1/pools/%s/forecast lists those there are", class, dimension, p.Pool)})
}
