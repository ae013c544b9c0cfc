module example.org/conclave/sdk/go

go 1.24.0
