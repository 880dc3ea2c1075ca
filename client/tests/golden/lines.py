x = 1

if x:    y = "é"; z = x
