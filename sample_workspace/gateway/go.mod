module saltgauge.example/gateway

go 1.22
