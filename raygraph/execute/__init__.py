"""Where calls are carried out: in the driver, in local processes, on Ray."""
