replaced["-n 10000"] = "-n 4"
replaced["generate_dataset(1000"] = "generate_dataset(2"
