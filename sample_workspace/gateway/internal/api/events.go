package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// heartbeat keeps proxies from closing a quiet stream.
const heartbeat = 20 * time.Second

// streamEvents sends every new reading as a server-sent event until the client leaves.
func (h *Handler) streamEvents(w http.ResponseWriter, r *http.Request) {
	flusher, ok := w.(http.Flusher)
	if !ok {
		http.Error(w, "streaming is not possible here", http.StatusInternalServerError)
		return
	}
	updates, cancel := h.window.Subscribe()
	defer cancel()

	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	flusher.Flush()

	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
			fmt.Fprint(w, ": still here\n\n")
		case reading := <-updates:
			body, err := json.Marshal(reading)
			if err != nil {
				return
			}
			fmt.Fprintf(w, "event: reading\ndata: %s\n\n", body)
		}
		flusher.Flush()
	}
}
