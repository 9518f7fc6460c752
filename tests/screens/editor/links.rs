//! Links and GPUs go together: what follows when the GPU changes, and what is said where they do not.

use memwall::app::{DependentChange, KeyPress};

use super::{go_to, letters, press};
use crate::support::catalog;
use crate::support::demo::{look, screen};
use crate::support::plan::open;

/// Eight H100 SXM, joined by NVLink 4 (H100 data sheet: 900 GB/s both ways).
const JOINED: &str = "\
model: {preset: llama-2-7b, batch_size: 32, sequence_length: 2048}
training: {micro_batch_size: 4}
hardware: {gpu_type: NVIDIA H100 SXM 80GB}
cluster: {num_gpus: 8, interconnect: nvlink_4}
distribution: {strategy: zero3}
";

/// No Ada card has NVLink (NVIDIA Ada GPU Architecture, v2.02): the 4090 talks over PCIe 4.
const RTX_4090: &str = "NVIDIA GeForce RTX 4090 24GB";

#[test]
fn another_gpu_takes_its_own_link_along_in_one_edit() {
    let mut state = open(JOINED);
    go_to(&mut state, "hardware.gpu_type");
    press(&mut state, &[KeyPress::Enter]);
    letters(&mut state, "4090");
    press(&mut state, &[KeyPress::Enter]);
    let text = state.plans.editor.text().to_owned();
    assert!(text.contains("RTX 4090") && text.contains("interconnect: pcie_4"), "{text}");
    assert_eq!(state.plans.editor.lacking(), None);
    press(&mut state, &[KeyPress::Char('u')]);
    assert_eq!(state.plans.editor.text(), JOINED);
    // A GPU that has the plan's link keeps it: the H200 SXM has NVLink 4 too.
    go_to(&mut state, "hardware.gpu_type");
    press(&mut state, &[KeyPress::Enter]);
    letters(&mut state, "h200 sxm");
    press(&mut state, &[KeyPress::Enter]);
    assert!(state.plans.editor.text().contains("interconnect: nvlink_4"), "{}", state.plans.editor.text());
}

#[test]
fn the_step_to_another_gpu_says_which_link_comes_with_it() {
    // In the catalogue the H100 PCIe stands after the H100 SXM.
    let mut state = open(JOINED);
    go_to(&mut state, "hardware.gpu_type");
    let upper = state.plans.form.upper.clone().unwrap();
    assert_eq!(upper.value, "NVIDIA H100 PCIe 80GB");
    let link = DependentChange { what: "interconnect", from: "nvlink_4".to_owned(), to: "pcie_5".to_owned() };
    assert_eq!(upper.follows, [link]);
    let shown = screen(&state, &look(), (120, 40));
    assert!(shown.contains("also interconnect nvlink_4:"), "{shown}");
}

#[test]
fn a_link_that_the_gpu_does_not_have_is_told_at_the_field_at_the_top_and_among_the_fixes() {
    for (gpu, short, link, own) in
        [(RTX_4090, "RTX4090", "nvlink_4", "pcie_4"), ("NVIDIA H100 SXM 80GB", "H100-80G", "nvlink_5", "nvlink_4")]
    {
        let text = JOINED.replace("NVIDIA H100 SXM 80GB", gpu).replace("nvlink_4", link);
        let mut state = open(&text);
        let missing = format!("{gpu} has no {link}: its own link is {own}");
        for size in [(60, 20), (80, 24), (120, 40), (200, 50)] {
            let shown = screen(&state, &look(), size);
            let top = shown.lines().nth(1).unwrap();
            assert!(top.contains(&format!("! {short} has no {link}")), "{size:?} {top}");
        }
        go_to(&mut state, "cluster.interconnect");
        let shown = screen(&state, &look(), (200, 50));
        assert_eq!(shown.lines().filter(|line| line.contains(&format!("has no {link}"))).count(), 2, "{shown}");
        press(&mut state, &[KeyPress::Char('X')]);
        let view = state.dialogs.fixes.as_ref().unwrap();
        let at = view.fixes().position(|fix| fix.name == format!("interconnect {own}")).unwrap();
        let finding = view.findings.iter().find(|finding| finding.kind == "link_not_on_gpu").unwrap();
        assert!(finding.message.starts_with(&missing), "{}", finding.message);
        let slower = view.fixes().nth(at).unwrap().clone();
        assert!(slower.speed < 0.0, "{}: the plan's link is the faster one", slower.speed);
        press(&mut state, &vec![KeyPress::Down; at]);
        press(&mut state, &[KeyPress::Enter]);
        assert_eq!(state.plans.editor.said("cluster.interconnect").as_deref(), Some(own));
        assert_eq!(state.plans.editor.lacking(), None);
        assert!(!screen(&state, &look(), (200, 50)).contains("has no nvlink"));
    }
}

#[test]
fn a_sweep_over_gpus_gives_each_a_link_that_it_has() {
    let mut state = open(JOINED);
    go_to(&mut state, "hardware.gpu_type");
    press(&mut state, &[KeyPress::Char('w')]);
    let view = state.dialogs.sweep.as_ref().unwrap();
    let link = |name: &str| {
        let point = view.sweep.points.iter().find(|point| view.sweep.value(point, 0) == name).unwrap();
        (point.link.clone(), point.outcome.as_ref().unwrap().time.step)
    };
    let (taken, step) = link(RTX_4090);
    assert_eq!((taken.as_deref(), link("NVIDIA H200 SXM 141GB").0), (Some("pcie_4"), None));
    let alone = JOINED.replace("NVIDIA H100 SXM 80GB", RTX_4090).replace(", interconnect: nvlink_4", "");
    assert_eq!(open(&alone).plans.editor.prediction().unwrap().time.step, step);
}

#[test]
fn whose_link_is_whose_is_in_the_catalogue() {
    let catalog = catalog();
    let has = |gpu: &str, link: &str| catalog.has_link(catalog.gpu(gpu).unwrap(), catalog.link(link).unwrap());
    // Data sheets: A100 PCIe with a bridge of 600 GB/s both ways, lanes of PCIe 4; A30 with one of 200 GB/s.
    for (gpu, link) in [
        ("H100 SXM", "nvlink_4"),
        ("H100 SXM", "pcie_5"),
        ("H100 SXM", "pcie_4"),
        ("A100 PCIe 80GB", "nvlink_bridge_a100"),
        ("A30", "nvlink_bridge_a30"),
        ("RTX 3090", "nvlink_bridge"),
        ("B200", "nvlink_5"),
        ("MI300X", "infinity_fabric"),
    ] {
        assert!(has(gpu, link), "{gpu} {link}");
    }
    for (gpu, link) in [
        ("RTX4090", "nvlink_4"),
        ("RTX 4090", "nvlink_bridge"),
        ("H100 SXM", "nvlink_5"),
        ("A100 SXM 80GB", "nvlink_4"),
        ("A100 SXM 80GB", "pcie_5"),
        ("T4", "pcie_4"),
        ("MI300X", "nvlink_4"),
    ] {
        assert!(!has(gpu, link), "{gpu} {link}");
    }
    for gpu in catalog.gpus.iter() {
        for name in std::iter::once(&gpu.link).chain(&gpu.bridge) {
            assert!(catalog.has_link(gpu, catalog.link(name).unwrap()), "{}: {name}", gpu.name);
        }
    }
}
