"""Ten ways in which models write calls, and the frames around them."""
