"""The webhook that sizes pods at their creation and checks objects: what it watches, answers, shows and registers."""
