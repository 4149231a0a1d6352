// Package api turns HTTP requests into questions to the window of readings.
package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"saltgauge.example/gateway/internal/limits"
	"saltgauge.example/gateway/internal/readings"
)

// maxBody is the largest upload that is read, in bytes.
const maxBody = 1 << 20

// Handler answers the requests of dashboards and of ingest.
type Handler struct {
	window *readings.Window
	bucket *limits.Bucket
}

// NewHandler returns the routes of the gateway behind a rate limit.
func NewHandler(window *readings.Window, bucket *limits.Bucket) http.Handler {
	handler := &Handler{window: window, bucket: bucket}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/stations", handler.listStations)
	mux.HandleFunc("GET /v1/stations/{id}/readings", handler.listReadings)
	mux.HandleFunc("POST /v1/readings", handler.addReadings)
	mux.HandleFunc("GET /v1/events", handler.streamEvents)
	return handler.limited(mux)
}

// limited refuses requests while the bucket is empty.
func (h *Handler) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.bucket.Take() {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (h *Handler) listStations(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, h.window.Stations())
}

// listReadings answers with the readings of one station, by default those of the last day.
func (h *Handler) listReadings(w http.ResponseWriter, r *http.Request) {
	from := time.Now().Add(-24 * time.Hour)
	if given := r.URL.Query().Get("from"); given != "" {
		parsed, err := time.Parse(time.RFC3339, given)
		if err != nil {
			http.Error(w, "from: not an RFC 3339 time", http.StatusBadRequest)
			return
		}
		from = parsed
	}
	writeJSON(w, h.window.Since(r.PathValue("id"), from))
}

// addReadings takes an array of readings from ingest; all of them or none.
func (h *Handler) addReadings(w http.ResponseWriter, r *http.Request) {
	var batch []readings.Reading
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&batch); err != nil {
		http.Error(w, fmt.Sprintf("not an array of readings: %v", err), http.StatusBadRequest)
		return
	}
	for _, reading := range batch {
		h.window.Add(reading)
	}
	w.WriteHeader(http.StatusNoContent)
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}
