# The parts, one after the other.


def tell(text):
    print("memwall bench: " + text, file=sys.stderr, flush=True)


PARTS = (
    ("matmuls", matmuls),
    ("memory", moves),
    ("pages", fresh),
    ("attention", attention),
    ("convolutions", convolutions),
    ("launches", launches),
    ("optimizer", optimizer),
    ("process", process),
)


def main():
    parser = argparse.ArgumentParser(description="Measures what PyTorch's kernels reach on this machine.")
    parser.add_argument("--output", required=True, metavar="FILE", help="where the rows go, one JSON object a line")
    parser.add_argument("--cpu", action="store_true", help="measure the CPU")
    parser.add_argument("--device", type=int, default=0, metavar="INDEX", help="which GPU")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="about how long")
    parser.add_argument("--only", choices=[name for name, _ in PARTS], action="append", help="this part alone")
    asked = parser.parse_args()
    if not asked.cpu and not torch.cuda.is_available():
        tell("PyTorch sees no GPU here: --cpu measures the CPU")
        return 1
    rank = int(os.environ.get("RANK", "0"))
    local = int(os.environ.get("LOCAL_RANK", str(asked.device)))
    device = torch.device("cpu") if asked.cpu else torch.device("cuda", local)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.manual_seed(0)
    with open(asked.output if rank == 0 else os.devnull, "w") as file:

        def write(row):
            file.write(json.dumps(row) + "\n")
            file.flush()

        bench = Bench(device, asked.seconds, write)
        about = machine(bench)
        write({"kernel": "machine", **about})
        tell("measures %s: about %d s" % (about["name"], asked.seconds))
        if rank == 0:
            for name, part in PARTS:
                if not asked.only or name in asked.only:
                    tell(name)
                    part(bench)
        if "WORLD_SIZE" in os.environ and int(os.environ["WORLD_SIZE"]) > 1:
            if rank == 0:
                tell("collectives")
            collectives(bench)
        spreads = sorted(bench.spreads)
        done = {"spread": spreads[len(spreads) // 2]} if spreads else {}
        if bench.clocks:
            done["clock_mhz"] = sorted(bench.clocks)[len(bench.clocks) // 2]
        write({"kernel": "done", **done})
    return 0


if __name__ == "__main__":
    sys.exit(main())
