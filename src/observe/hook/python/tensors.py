# What is known of tensors, parameters, models and this process without a look at a value.

# What shares a model among ranks or compiles it, by class, and where the model lies in it.
_WRAPPERS = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "module",
    "DeepSpeedEngine": "module",
    "PipelineEngine": "module",
    "OptimizedModule": "_orig_mod",
    "_FabricModule": "_forward_module",
}
_WRAPPED = ("module", "_orig_mod", "_fsdp_wrapped_module", "_forward_module", "_checkpoint_wrapped_module")


def _thread():
    import threading

    return threading.get_ident()


def _weak(value):
    import weakref

    return weakref.ref(value)


def _first_tensor(torch, output):
    if isinstance(output, torch.Tensor):
        return output
    values = output.values() if isinstance(output, dict) else output if isinstance(output, (tuple, list)) else ()
    return next((value for value in values if isinstance(value, torch.Tensor)), None)


def _local(tensor):
    """The part of a sharded tensor that lies on this device."""
    return getattr(tensor, "_local_tensor", tensor)


def _size(tensor):
    """Bytes of what the tensor is a view of."""
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return storage.nbytes()


def _storage(tensor):
    tensor = _local(tensor)
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return storage.data_ptr()


def _begin(tensor):
    """Where its own elements begin; 0 where they are nowhere."""
    return tensor.data_ptr() if hasattr(tensor, "data_ptr") else _storage(tensor)


def _masters(parameters, groups):
    """What an optimizer trains in fp32 in place of a model's parameters of 16 bits, as DeepSpeed's does."""
    own = {id(parameter) for parameter in parameters}
    half = parameters and all(parameter.element_size() == 2 for parameter in parameters)
    return [one for one in groups if half and id(one) not in own and one.element_size() == 4]


def _bytes(tensors):
    """Bytes of tensors on this device, what is shared counted once."""
    sizes = {}
    for tensor in tensors:
        if hasattr(tensor, "element_size"):
            tensor = _local(tensor)
            # Views of one buffer are several, as DeepSpeed lays parameters out; tied ones begin at the same place.
            sizes[_begin(tensor) or id(tensor)] = tensor.numel() * tensor.element_size()
    return sum(sizes.values())


def _count(parameter):
    """Elements of the whole parameter, however it is sharded: DeepSpeed's ZeRO 3, FSDP's flat
    parameters; of DTensors `numel` is the whole already. Of a quantised one what it stands for."""
    packed = _packed(parameter)
    if packed is not None:
        return packed
    whole = getattr(parameter, "ds_numel", None)
    if whole is None:
        flat = getattr(parameter, "_unpadded_unsharded_size", None)
        whole = flat.numel() if flat is not None else parameter.numel()
    return int(whole)


def _packed(parameter):
    """Weights behind a parameter of bitsandbytes in 4 bits: two lie in a byte, and its state has the shape that they
    had (nn/modules.py, Params4bit.quant_state; functional.py, QuantState.shape). None of others."""
    shape = getattr(getattr(parameter, "quant_state", None), "shape", None)
    if shape is None:
        return None
    count = 1
    for length in shape:
        count *= int(length)
    return count


def _checkpointed(model):
    """Whether blocks are computed again for the backward pass; none where the modules do not say."""
    flags = []
    for _, module in model.named_modules():
        if type(module).__name__ == "CheckpointWrapper":
            return True
        flag = module.__dict__.get("gradient_checkpointing")
        if isinstance(flag, bool):
            flags.append(flag)
    return any(flags) if flags else None


def _total(frame, steps):
    """Optimizer steps of this process, of which `steps` are made, by the trainer that makes them: Lightning's
    (pytorch/loops/fit_loop.py, FitLoop.run; trainer.estimated_stepping_batches) and transformers' (trainer.py,
    Trainer.train; TrainerState.max_steps). Both count the step that ends now behind its hooks. None of others."""
    while frame is not None:
        path, name = frame.f_code.co_filename, frame.f_code.co_name
        try:
            if name == "run" and path.endswith("/pytorch/loops/fit_loop.py"):
                left = _left_by_lightning(frame.f_locals["self"].trainer)
                return steps - 1 + left if left else None
            if name == "train" and path.endswith("/transformers/trainer.py"):
                state = frame.f_locals["self"].state
                left = int(state.max_steps) - int(state.global_step)
                return steps - 1 + left if left > 0 else None
        except Exception:
            return None
        frame = frame.f_back
    return None


def _left_by_lightning(trainer):
    """Steps that it has to make, as its `estimated_stepping_batches` counts them; none where it does not know, or counts
    those of several optimizers."""
    if len(trainer.optimizers) != 1:
        return None
    limits = [int(trainer.max_steps)] if trainer.max_steps > 0 else []
    batches = trainer.num_training_batches
    if trainer.max_epochs and trainer.max_epochs > 0 and batches != float("inf"):
        limits.append(-(-int(batches) // int(trainer.accumulate_grad_batches)) * int(trainer.max_epochs))
    left = min(limits) - int(trainer.global_step) if limits else 0
    return left if left > 0 else None


def _place(torch):
    """The rank and how many there are, where PyTorch's processes have met: not all launchers tell it in the environment."""
    met = getattr(torch, "distributed", None)
    try:
        if met is not None and met.is_available() and met.is_initialized():
            return {"rank": int(met.get_rank()), "world": int(met.get_world_size())}
    except Exception:
        pass
    return {}


def _unwrapped(model):
    """The model in what shares it among ranks or compiles it."""
    while True:
        inner = getattr(model, _WRAPPERS.get(type(model).__name__, ""), None)
        if inner is None:
            return model
        model = inner


def _holder(module, trained):
    """The model that holds what an optimizer trains, where setting hooks on modules would compile them again: among
    all objects, the largest module that lies in no other. None where there is no such module."""
    import gc

    every = [one for one in gc.get_objects() if issubclass(type(one), module) and "_modules" in one.__dict__]
    inner = {id(child) for one in every for child in one._modules.values()}
    trained = {id(parameter) for parameter in trained}
    outer = (one for one in every if id(one) not in inner)
    holders = [one for one in outer if any(id(parameter) in trained for parameter in one.parameters())]
    return max(holders, key=_weight, default=None)


def _weight(module):
    return sum(_count(parameter) for parameter in module.parameters())


def _plain(value):
    if isinstance(value, (tuple, list)):
        return len(value) <= 4 and all(_plain(part) for part in value)
    # A learning rate may be a tensor: reading it would wait for the device.
    return value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and value == value and abs(value) < 1e30)


def _memory(torch):
    """Memory now. On CUDA the caching allocator's own counts, without waiting for the device;
    elsewhere the resident set of the process, which is more than its tensors."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        stats = torch.cuda.memory_stats()
        return {
            "memory": "cuda",
            "allocated": stats["allocated_bytes.all.current"],
            "reserved": stats["reserved_bytes.all.current"],
            "peak_allocated": stats["allocated_bytes.all.peak"],
            "peak_reserved": stats["reserved_bytes.all.peak"],
            "retries": stats.get("num_alloc_retries", 0),
            "ooms": stats.get("num_ooms", 0),
        }
    import resource

    page = os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/statm") as statm:
        resident = int(statm.read().split()[1]) * page
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"memory": "resident", "allocated": resident, "peak_allocated": max(peak, resident)}


def _compiles():
    """Whether torch.compile has compiled anything: it guards on module hooks, so that setting one
    would compile everything again."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None)
    return bool(counters and counters.get("frames"))
