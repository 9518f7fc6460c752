"""Changes of modules that wait until a script imports them."""

import importlib.abc
import importlib.machinery
import sys


class Later(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Changes modules once they are imported: what a script does not use is not loaded."""

    def __init__(self):
        self.actions, self.loaders = {}, {}

    @classmethod
    def begun(cls):
        later = cls()
        sys.meta_path.insert(0, later)
        return later

    def after(self, name, action):
        if name in sys.modules:
            action(sys.modules[name])
        else:
            self.actions[name] = action

    def find_spec(self, name, path, target=None):
        if name not in self.actions:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            self.loaders[name], spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return self.loaders[spec.name].create_module(spec)

    def exec_module(self, module):
        name = module.__spec__.name
        module.__spec__.loader = module.__loader__ = self.loaders[name]
        # OpenCV's module imports another of its own name (cv2/__init__.py, `bootstrap`).
        action = self.actions.pop(name)
        self.loaders[name].exec_module(module)
        action(module)
