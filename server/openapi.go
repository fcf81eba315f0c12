package server

import (
	_ "embed"
	"encoding/json"
	"net/http"
)

// openAPI is the OpenAPI 3.1 document of the API. A test compares it with the answers and their types.
//
//go:embed openapi.json
var openAPI []byte

// parametersOf are the query parameters of each path in the document.
var parametersOf = func() map[string][]string {
	var document struct {
		Paths map[string]struct {
			Get struct{ Parameters []struct{ Name, In string } }
		}
	}
	if err := json.Unmarshal(openAPI, &document); err != nil {
		panic(err) // it is part of the program
	}
	all := map[string][]string{}
	for path, operation := range document.Paths {
		all[path] = nil
		for _, p := range operation.Get.Parameters {
			if p.In == "query" {
				all[path] = append(all[path], p.Name)
			}
		}
	}
	return all
}()

func getOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI)
}
