// Command gateway keeps the last day of readings and serves them to dashboards.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"saltgauge.example/gateway/internal/api"
	"saltgauge.example/gateway/internal/limits"
	"saltgauge.example/gateway/internal/readings"
)

// shutdownGrace is how long open requests may take once a stop was asked for.
const shutdownGrace = 5 * time.Second

func main() {
	address := flag.String("listen", "localhost:8090", "address to listen on")
	keep := flag.Duration("keep", 24*time.Hour, "how long readings stay in memory")
	flag.Parse()

	if err := run(*address, *keep); err != nil {
		slog.Error("gateway stopped", "error", err)
		os.Exit(1)
	}
}

// run serves until SIGINT or SIGTERM and then lets open requests finish.
func run(address string, keep time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	window := readings.NewWindow(keep)
	bucket := limits.NewBucket(50, 100, time.Now)
	server := &http.Server{
		Addr:              address,
		Handler:           api.NewHandler(window, bucket),
		ReadHeaderTimeout: 5 * time.Second,
	}

	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	slog.Info("gateway listens", "address", address, "keep", keep)

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return server.Close()
}
