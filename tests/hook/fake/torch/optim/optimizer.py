_after = []


def register_optimizer_step_post_hook(hook):
    _after.append(hook)


class Optimizer:
    def __init__(self, parameters):
        self.param_groups = [{"params": list(parameters), "lr": 0.1}]
        self.state = {}

    def step(self):
        for hook in _after:
            hook(self, (), {})
