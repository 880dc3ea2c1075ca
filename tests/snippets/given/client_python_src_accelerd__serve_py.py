import accelerd
