# What the machine is, and what a training process holds on it.

# What a training process holds at most without a model of its own: after three steps of a tiny one, which has loaded what
# those of any size load (modules, kernels, the autograd engine, the optimizer).
PROCESS = """
import torch
%s
adamw = torch.optim.AdamW(model.parameters())
for _ in range(3):
    loss().backward()
    adamw.step()
    adamw.zero_grad()
print([1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
"""
LAYERS = """
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 64))
loss = lambda: torch.nn.functional.cross_entropy(model(torch.randn(64, 64)), torch.zeros(64, dtype=torch.long))
"""
LANGUAGE_MODEL = """
from transformers import BertForMaskedLM, GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(vocab_size=512, n_embd=64, n_layer=2, n_head=2, n_positions=128))
ids = torch.randint(0, 512, (2, 64))
loss = lambda: model(input_ids=ids, labels=ids).loss
"""


def process(bench):
    if bench.on_gpu:
        return
    for name, text in (("torch", LAYERS), ("transformers", LANGUAGE_MODEL)):
        told = subprocess.run([sys.executable, "-c", PROCESS % text], capture_output=True, text=True)
        if told.returncode == 0:
            bench.row("process", name=name, bytes=int(told.stdout.split()[-1]))


def machine(bench):
    about = {"torch": str(torch.__version__), "python": sys.version.split()[0], "date": time.strftime("%Y-%m-%d")}
    if bench.on_gpu:
        card = torch.cuda.get_device_properties(bench.device)
        about["device"] = "gpu"
        about["name"] = card.name
        about["vendor"] = "amd" if torch.version.hip else "nvidia"
        about["multiprocessors"] = card.multi_processor_count
        about["memory_bytes"] = card.total_memory
        about["toolkit"] = "HIP %s" % torch.version.hip if torch.version.hip else "CUDA %s" % torch.version.cuda
        driver = driver_version()
        if driver:
            about["driver"] = driver
        power = smi("power.limit")
        if power:
            about["power_limit_w"] = power[0]
        return about
    about["device"] = "cpu"
    about["name"] = cpu_name()
    about["multiprocessors"] = torch.get_num_threads()
    about["memory_bytes"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return about


def driver_version():
    try:
        with open("/sys/module/nvidia/version") as version:
            return version.read().strip()
    except OSError:
        return None


def cpu_name():
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return "CPU"
