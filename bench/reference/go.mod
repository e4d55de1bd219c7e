module switchboard.bench/reference

go 1.19
