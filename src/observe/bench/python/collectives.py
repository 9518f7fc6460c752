# What ranks measure together.


def groups(world, local):
    """Groups to measure: the first ranks of a node, two, four … all of them; and one rank of every node."""
    found = []
    size = 2
    while size <= local:
        found.append(("node", list(range(size))))
        size *= 2
    if local > 1 and ("node", list(range(local))) not in found:
        found.append(("node", list(range(local))))
    nodes = world // local
    size = 2
    while size <= nodes:
        found.append(("network", [node * local for node in range(size)]))
        size *= 2
    return found


def collectives(bench):
    import torch.distributed as dist

    dist.init_process_group("nccl" if bench.on_gpu else "gloo")
    world, rank = dist.get_world_size(), dist.get_rank()
    local = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    sizes = (1 << 16, 1 << 20, 1 << 24, 1 << 28) if bench.on_gpu else (1 << 12, 1 << 18, 1 << 22)
    for scope, ranks in groups(world, local):
        group = dist.new_group(ranks)
        for count in sizes if rank in ranks else ():
            for kind, run in calls(bench, dist, group, ranks, count // 4):
                try:
                    seconds = together(bench, dist, group, run)
                except RuntimeError as error:
                    tell("%s: %s" % (kind, str(error).splitlines()[0]))
                    continue
                if rank == ranks[0]:
                    bench.row("collective", scope=scope, kind=kind, ranks=len(ranks), bytes=count, seconds=seconds)
        dist.barrier()
    dist.destroy_process_group()


def calls(bench, dist, group, ranks, elements):
    """Each kind of collective over a tensor of so many elements: the whole one."""
    several = len(ranks)
    part = elements // several
    whole = torch.ones(part * several, device=bench.device)
    other = torch.ones(part * several, device=bench.device)
    mine = torch.ones(part, device=bench.device)
    yield "all_reduce", lambda: dist.all_reduce(whole, group=group)
    if bench.on_gpu:
        gather = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
        scatter = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
        yield "all_gather", lambda: gather(whole, mine, group=group)
        yield "reduce_scatter", lambda: scatter(mine, whole, group=group)
        yield "all_to_all", lambda: dist.all_to_all_single(other, whole, group=group)
    else:
        yield "all_gather", lambda: dist.all_gather(list(other.chunk(several)), mine, group=group)
    if several == 2:
        first = dist.get_rank() == ranks[0]
        if first:
            yield "send", lambda: dist.send(whole, ranks[1], group=group)
        else:
            yield "send", lambda: dist.recv(whole, ranks[0], group=group)


def together(bench, dist, group, run):
    """The median over a fixed number of runs: ranks must agree on it."""
    for _ in range(3):
        run()
    samples = []
    for _ in range(10):
        bench.wait()
        dist.barrier(group=group)
        begun = time.perf_counter()
        for _ in range(5):
            run()
        bench.wait()
        samples.append((time.perf_counter() - begun) / 5)
    return sorted(samples)[len(samples) // 2]
