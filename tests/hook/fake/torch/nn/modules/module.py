_before, _after = [], []


class _Handle:
    def __init__(self, hooks, hook):
        self.hooks, self.hook = hooks, hook
        hooks.append(hook)

    def remove(self):
        self.hooks.remove(self.hook)


def register_module_forward_pre_hook(hook):
    return _Handle(_before, hook)


def register_module_forward_hook(hook):
    return _Handle(_after, hook)


class Module:
    def __call__(self, *inputs):
        for hook in list(_before):
            hook(self, inputs)
        output = self.forward(*inputs)
        for hook in list(_after):
            hook(self, inputs, output)
        return output

    def children(self):
        return (value for value in vars(self).values() if isinstance(value, Module))

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield from value.named_modules(prefix + "." + name if prefix else name)

    def parameters(self, recurse=True):
        from torch import Parameter

        for value in vars(self).values():
            if isinstance(value, Parameter):
                yield value
            elif recurse and isinstance(value, Module):
                yield from value.parameters()
