//! The catalogue inside the binary: what must be there, under which names, with sources.

use std::path::Path;

use crate::support::catalog;
use memwall::plan::traced::unpacked;
use memwall::plan::{Document, plan_of};
use memwall::units::{Bytes, BytesPerSec};

#[test]
fn the_cards_that_people_train_on_are_there() {
    let catalog = catalog();
    for name in [
        "A100 40GB SXM",
        "A100 80GB SXM",
        "A100 40GB PCIe",
        "A100 80GB PCIe",
        "H100 SXM",
        "H100 PCIe",
        "H100 NVL",
        "H200",
        "B200",
        "GB200",
        "RTX 3090",
        "RTX 4090",
        "RTX 5090",
        "RTX A6000",
        "L4",
        "L40S",
        "A10",
        "V100",
        "T4",
        "MI300X",
        "MI325X",
        "Tesla P100-PCIE-16GB",
        "GTX 1080 Ti",
        "RTX 2080 SUPER",
        "RTX 3080 12GB",
        "RTX 4060 Ti",
        "RTX 5060 Ti",
        "NVIDIA GB10",
        "RX 7900 XTX",
    ] {
        assert!(catalog.gpu(name).is_some(), "{name}");
    }
}

#[test]
fn the_contracts_names_mean_what_it_says() {
    let catalog = catalog();
    let gib = |name: &str| catalog.gpu(name).unwrap_or_else(|| panic!("{name}")).memory.gib();
    // "`NVIDIA H100` is SXM 80 GB, `NVIDIA A100` is SXM 80 GB", as NVML counts them.
    for (name, nominal) in [
        ("NVIDIA H100", 80.0),
        ("NVIDIA A100", 80.0),
        ("NVIDIA A100 40GB", 40.0),
        ("A100_80GB_SXM", 80.0),
        ("NVIDIA V100 16GB", 16.0),
        ("NVIDIA A10G", 24.0),
        ("nvidia gb200", 186.0),
        ("nvidia-h200", 141.0),
    ] {
        let share = gib(name) / nominal;
        assert!((0.92..=1.01).contains(&share), "{name}: {} GiB", gib(name));
    }
    assert_eq!(catalog.gpu("h100").unwrap().name, catalog.gpu("NVIDIA H100 80GB HBM3").unwrap().name);
}

/// What NVML calls them; GB/s, TFLOP/s in FP32 and watts are those of their data sheets, 97887 MiB what NVML reports.
#[test]
fn the_editions_of_a_card_are_told_apart() {
    let catalog = catalog();
    for (name, bandwidth, fp32, watts) in [
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 1792.0, 125.0, 600.0),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 1792.0, 110.0, 300.0),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 1597.0, 120.0, 600.0),
    ] {
        let card = catalog.gpu(name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!((card.memory.gib() * 1024.0).round(), 97_887.0, "{name}");
        assert_eq!(card.bandwidth, BytesPerSec::from_giga(bandwidth), "{name}");
        let share = card.peaks.fp32.unwrap().0 / (fp32 * 1e12);
        assert!((0.99..=1.01).contains(&share), "{name}: {share}");
        assert_eq!(card.tdp.unwrap().0, watts, "{name}");
    }
}

/// nvidia-smi calls both boards "NVIDIA GeForce RTX 4060 Ti", of 16380 and of 8188 MiB; "RTX 3080" of 10240 and of 12288.
#[test]
fn boards_of_one_name_are_told_apart_by_their_memory() {
    let catalog = catalog();
    let seen = |name: &str, mib: Option<u64>| catalog.seen(name, mib.map(Bytes::from_mib)).map(|gpu| gpu.name.as_str());
    let (ti, old) = ("NVIDIA GeForce RTX 4060 Ti", "NVIDIA GeForce RTX 3080");
    assert_eq!(seen(ti, Some(16_380)), Some("NVIDIA GeForce RTX 4060 Ti 16GB"));
    assert_eq!(seen(ti, Some(8188)), Some("NVIDIA GeForce RTX 4060 Ti 8GB"));
    assert_eq!(seen(ti, None), Some("NVIDIA GeForce RTX 4060 Ti 16GB"));
    assert_eq!(seen(old, Some(10_240)), Some("NVIDIA GeForce RTX 3080 10GB"));
    assert_eq!(seen(old, Some(12_288)), Some("NVIDIA GeForce RTX 3080 12GB"));
    // A part of a GPU, or one under another's limit, stays what its name says.
    assert_eq!(seen("NVIDIA A100-SXM4-80GB", Some(20_096)), Some("NVIDIA A100 SXM 80GB"));
    assert_eq!(seen("NVIDIA Voodoo", Some(8188)), None);
}

#[test]
fn the_contracts_links_have_its_bandwidths() {
    let catalog = catalog();
    for (name, giga) in [
        ("nvlink_3", 300.0),
        ("nvlink_4", 450.0),
        ("nvlink_5", 900.0),
        ("pcie_4", 32.0),
        ("pcie_5", 64.0),
        ("infiniband_hdr", 25.0),
        ("infiniband_ndr", 50.0),
        ("infiniband_xdr", 100.0),
        ("ethernet_100", 12.5),
    ] {
        assert_eq!(catalog.link(name).unwrap().each_way, BytesPerSec::from_giga(giga), "{name}");
    }
}

#[test]
fn every_card_names_a_link_that_exists() {
    let catalog = catalog();
    for gpu in catalog.gpus.iter() {
        assert!(catalog.link(&gpu.link).is_some(), "{}: {}", gpu.name, gpu.link);
        assert!(gpu.short.chars().count() <= 10, "{}: {}", gpu.name, gpu.short);
    }
}

#[test]
fn no_name_means_two_things() {
    let catalog = catalog();
    for gpu in catalog.gpus.iter() {
        for name in std::iter::once(&gpu.name).chain(&gpu.aliases) {
            assert_eq!(catalog.gpu(name).unwrap().name, gpu.name, "{name}");
        }
    }
    for preset in catalog.models.iter() {
        for name in std::iter::once(&preset.name).chain(&preset.aliases) {
            assert_eq!(catalog.model(name).unwrap().name, preset.name, "{name}");
        }
    }
}

#[test]
fn peaks_are_dense_and_in_order() {
    for gpu in catalog().gpus.iter() {
        let peaks = gpu.peaks;
        let ratio = |more: Option<memwall::units::FlopsPerSec>, less: Option<memwall::units::FlopsPerSec>| {
            more.zip(less).map(|(more, less)| more.0 / less.0)
        };
        // FP8 runs at twice bf16, TF32 at half of it, or at the same rate: a sparse figure
        // among dense ones would be off by two.
        for pair in [ratio(peaks.fp8, peaks.bf16), ratio(peaks.bf16, peaks.tf32)] {
            assert!(pair.is_none_or(|ratio| (0.95..=2.1).contains(&ratio)), "{}: {pair:?}", gpu.name);
        }
        assert!(peaks.bf16.or(peaks.fp16).is_some(), "{}", gpu.name);
    }
}

#[test]
fn presets_of_decoders_have_their_exact_parameter_count() {
    let catalog = catalog();
    assert!(catalog.models.len() >= 30);
    let mut counted = 0;
    for preset in catalog.models.iter() {
        assert!(preset.source.contains("http"), "{}: {}", preset.name, preset.source);
        let plan =
            memwall::plan::Document::parse(&format!("model: {{preset: {}}}", preset.name)).unwrap().plan().unwrap();
        let Ok(job) = memwall::predict::Job::resolve(&plan, catalog) else { continue };
        assert_eq!(memwall::predict::predict(&job).params.total, preset.params, "{}", preset.name);
        counted += 1;
    }
    assert!(counted >= 30, "only {counted} presets can be predicted");
}

/// The links are those that plans can name by contract.
#[test]
fn an_unknown_name_is_told_with_the_nearest_or_with_what_there_is() {
    let catalog = catalog();
    assert_eq!(catalog.no_gpu("H10"), "H10 is not in the catalogue; nearest: NVIDIA H100");
    assert_eq!(catalog.no_model("qqq"), "qqq is not in the catalogue; `memwall models` lists what is");
    let said = catalog.no_link("qqq");
    for link in ["nvlink_3", "nvlink_4", "nvlink_5", "pcie_4", "pcie_5", "infiniband_ndr", "ethernet_100"] {
        assert!(said.contains(link), "{said}");
    }
}

/// Checksums within GDDR6 take a sixteenth of it: NVML reports 15/16 of what the name says. GDDR gives less than 2 TB/s;
/// HBM has room of its own.
#[test]
fn cards_that_report_fifteen_sixteenths_keep_checksums_in_their_memory() {
    for gpu in catalog().gpus.iter().filter(|gpu| gpu.bandwidth.0 < 2e12 && !gpu.unified) {
        let named = gpu.name.split(' ').find_map(|word| word.strip_suffix("GB")?.parse::<f64>().ok());
        let Some(named) = named else { continue };
        let missing = gpu.memory.gib() / named < 0.95;
        assert_eq!(gpu.inline_ecc, missing, "{}: {} of {named} GiB", gpu.name, gpu.memory.gib());
    }
}

/// A trace that the catalogue holds is predicted as its file would be, which transformers itself wrote.
#[test]
fn presets_with_a_trace_are_predicted_by_it() {
    let catalog = catalog();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/traced");
    let mut traced = 0;
    for preset in catalog.models.iter() {
        let Some(trace) = preset.trace else { continue };
        traced += 1;
        assert_eq!(unpacked(trace).unwrap().parameters.total, preset.params, "{}", preset.name);
        let rest = "batch_size: 8, sequence_length: 1024}\n\
                    training: {micro_batch_size: 1, activation_checkpointing: full}\n\
                    hardware: {gpu_type: H100}\ncluster: {num_gpus: 8}\ndistribution: {sharding: zero3}\n";
        let by_name = format!("model: {{preset: {}, {rest}", preset.name);
        let by_file = format!("model: {{trace: {}.tape.json.gz, {rest}", preset.name);
        let [by_name, by_file] = [by_name, by_file].map(|text| {
            let plan = plan_of(&Document::parse(&text).unwrap(), &folder).unwrap();
            memwall::predict::of(&plan, catalog).unwrap()
        });
        assert_eq!(by_name.largest().peak_allocated, by_file.largest().peak_allocated, "{}", preset.name);
        assert_eq!(by_name.time.step, by_file.time.step, "{}", preset.name);
        let headed = format!("model: {{preset: {}, classes: 3}}", preset.name);
        let faults = memwall::predict::of(&Document::parse(&headed).unwrap().plan().unwrap(), catalog).unwrap_err();
        assert!(faults[0].to_string().contains("was traced with the head that it has"), "{}", faults[0]);
    }
    // Each file is a preset's.
    assert_eq!(traced, std::fs::read_dir(&folder).unwrap().count());
    assert!(traced >= 1);
}

/// LLaVA 1.5 7B trains all but its vision tower in its second stage, its projector alone in its first (its own scripts): CLIP's
/// tower at 336 pixels has 303,507,456 parameters, the projector 1024 x 4096 + 4096 + 4096 x 4096 + 4096.
#[test]
fn a_tower_and_its_projector_may_be_frozen() {
    let trained = |frozen: &str| {
        let text =
            format!("model: {{preset: llava-1.5-7b}}\ntraining: {{frozen: [{frozen}]}}\nhardware: {{gpu_type: H100}}");
        memwall::predict::of(&Document::parse(&text).unwrap().plan().unwrap(), catalog()).map(|it| it.params.trainable)
    };
    assert_eq!(trained("vision_tower").unwrap(), 7_063_427_072 - 303_507_456);
    assert_eq!(trained("vision_tower, language_model, lm_head").unwrap(), 20_979_712);
    let faults = trained("vision").unwrap_err();
    let said = faults[0].to_string();
    assert!(said.contains("`vision` is not a part of a model") && said.contains("multi_modal_projector"), "{said}");
}

/// Counts that others published, rounded as they wrote them, beside those of presets whose shapes come from litgpt's and
/// Megatron-Bridge's configurations, or are newer than what the other tests compare.
#[test]
fn presets_of_other_tools_have_the_published_size() {
    let published = [
        // As the names say, or the model's own page: Apertus, dots.llm1, EuroLLM, Granite 3.0, Kimi K2, polyglot-ko, StarCoder.
        ("apertus-8b", 8.05),
        ("bert-tiny", 0.0044),
        ("bert-mini", 0.0112),
        ("bert-small", 0.0288),
        ("bert-medium", 0.0414),
        ("dots.llm1-142b", 142.8),
        ("ernie-4.5-0.3b", 0.36),
        ("ernie-4.5-300b-a47b", 300.0),
        ("eurollm-1.7b", 1.657),
        ("glm-4.5-air-106b", 106.5),
        ("glm-4.7-flash-30b-a3b", 30.0),
        // The names say less than the model cards: of Falcon-H1's report, Nemotron-H's and Granite's cards, Bamba's.
        ("bamba-9b", 9.78),
        ("falcon-h1-1.5b", 1.55),
        ("falcon-h1-3b", 3.15),
        ("falcon-h1-7b", 7.59),
        ("falcon-mamba-7b", 7.27),
        ("granite-4.0-h-micro", 3.19),
        ("granite-4.0-h-tiny", 6.94),
        ("granite-4.0-h-small", 32.2),
        ("jamba-v0.1", 51.57),
        ("mamba-2.8b", 2.77),
        ("mamba2-2.7b", 2.70),
        ("nemotron-3-nano-30b-a3b", 31.6),
        ("nemotron-h-4b", 4.49),
        ("nemotron-h-8b", 8.1),
        ("nemotron-nano-9b-v2", 8.89),
        ("granite-3-3b-a800m", 3.3),
        // The table of its README.
        ("baichuan-13b", 13.264_901_120),
        ("baichuan2-13b", 13.896_668_160),
        ("hunyuan-a13b", 80.0),
        ("kimi-k2", 1026.0),
        ("lfm2-350m", 0.354_483_968),
        ("lfm2-700m", 0.742_489_344),
        ("lfm2-1.2b", 1.170_340_608),
        ("llama-4-maverick-17b-128e", 400.0),
        ("minimax-m2", 229.0),
        ("polyglot-ko-1.3b", 1.331_810_304),
        ("starcoder-15b", 15.5),
        ("falcon-180b", 179.5),
        ("falcon3-1b", 1.67),
        ("falcon3-3b", 3.23),
        ("falcon3-7b", 7.46),
        ("falcon3-10b", 10.3),
        ("mistral-large-2407", 123.0),
        ("olmoe-1b-7b", 6.92),
        ("salamandra-2b", 2.25),
        ("salamandra-7b", 7.77),
    ];
    for (name, billions) in published {
        let count = catalog().model(name).unwrap().params as f64 / 1e9;
        assert!((count / billions - 1.0_f64).abs() < 0.005, "{name}: {count} and {billions}");
    }
}

/// A switch's lanes are shared and a host's memory is between them: no board's link has what NVLink reaches of its own.
#[test]
fn links_of_boards_have_collectives_of_their_own() {
    for link in catalog().links.iter().filter(|link| link.on_board) {
        let own = catalog().link_curves.iter().any(|curve| curve.link.as_deref() == Some(link.name.as_str()));
        assert!(own, "{}", link.name);
    }
}
