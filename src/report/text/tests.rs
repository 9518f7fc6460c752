use unicode_width::UnicodeWidthStr;

use super::*;
use crate::predict::{Words, WordsPiece};
use crate::report::sample;

fn of(prediction: &Prediction, verbose: bool) -> String {
    report(&Report::of("a.yaml", prediction), verbose, 80)
}

#[test]
fn the_first_line_is_the_verdict() {
    let mut prediction = sample::two_stages();
    let first = |prediction: &Prediction| verdict(prediction);
    assert!(of(&prediction, false).starts_with("fits: 9.00 GiB device-used"));
    // 9 GiB and a byte of 10 GiB.
    assert_eq!(first(&prediction), "fits: 9.00 GiB device-used of 10.0 GiB on each GPU, 1.00 GiB headroom (10 %)");
    prediction.capacity.bytes = Bytes::from_gib(9.25);
    assert_eq!(first(&prediction), "tight: 9.00 GiB device-used of 9.25 GiB on each GPU, 0.25 GiB headroom (3 %)");
    prediction.capacity.bytes = Bytes::from_gib(8.0);
    let over = "does not fit: 9.00 GiB device-used of 8.00 GiB on each GPU, 1.00 GiB too much (13 %)";
    assert_eq!(first(&prediction), over);
}

#[test]
fn a_plan_for_the_cpu_speaks_of_no_gpu() {
    let mut prediction = sample::two_stages();
    prediction.on_cpu = true;
    assert_eq!(verdict(&prediction), "fits: 9.00 GiB resident of 10.0 GiB, 1.00 GiB headroom (10 %)");
    prediction.num_gpus = 1;
    prediction.stages.truncate(1);
    let text = of(&prediction, false);
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("GPU") || line.contains("device-used")).collect();
    assert_eq!(lines, [""; 0], "{text}");
}

#[test]
fn the_whole_report_as_people_read_it() {
    insta::assert_snapshot!(of(&sample::two_stages(), false), @r#"
    fits: 9.00 GiB device-used of 10.0 GiB on each GPU, 1.00 GiB headroom (10 %)
    gpt2 12 x 768 on 4x NVIDIA H100, plan a.yaml
    124 M parameters

    memory of a GPU at the peak, stage 0 of 2
                         GiB    %
      parameters        1.00   11
      gradients         1.00   11
      optimizer states  2.00   22
      activations       4.00   44
      overhead          1.00   11
      device-used       9.00  100
      peak in backward: loss: 3 copies of the logits

                    GiB
      static       3.00  allocated between steps
      allocated    8.00  tensors at the peak: torch.cuda.max_memory_allocated()
      reserved     8.50  held by the caching allocator:
                         torch.cuda.max_memory_reserved()
      device-used  9.00  with CUDA context, NCCL and workspaces: nvidia-smi

    stages, GiB on each GPU
      stage  layers  static  allocated  reserved  device-used  peak in
          0       6    3.00       8.00      8.50         9.00  backward
          1       6    3.00       6.00      6.50         7.00  backward

    time of a step: 500 ms, mostly compute
                               time   %
      compute-bound          250 ms  50
      memory-bound           125 ms  25
      communication         62.5 ms  12
      bubble                62.5 ms  12  of stage 0 of 2, which fills, drains and
                                         waits for slower stages
      waiting for the host      0 s   0  the host stays ahead of the GPU
      64.0 samples/s, 65 536 tokens/s, 16 384 tokens/s a GPU
      model 12.5 TFLOP/s a GPU, MFU 40 %, DRAM 2.00 TB/s (60 % of peak)
      whole training 7.078e9 tokens: 30 h 00 min, 120 GPU-hours

    roofline: 989 TFLOP/s in bf16, 3.35 TB/s, ridge 295 FLOP/B
      operator  runs        FLOP   traffic  FLOP/B  bound      time    %
      mlp.up      12  1.00 TFLOP  0.93 GiB    1000  compute  100 ms  100

    assumptions
      training.precision: bf16-mixed
    "#);
}

#[test]
fn verbose_gives_every_term_its_formula_and_source() {
    let text = of(&sample::two_stages(), true);
    for term in &sample::two_stages().largest().terms {
        assert!(text.contains(&*term.name), "{}", term.name);
    }
    assert!(text.contains("(4294967297 bytes)") && text.contains("source: by hand"), "{text}");
    assert!(text.contains("allocated over the step"), "{text}");
}

#[test]
fn no_line_is_wider_than_a_terminal() {
    let mut prediction = sample::two_stages();
    prediction.model = "a long name ".repeat(20);
    prediction.assumptions = ["word ".repeat(80)].into();
    prediction.roofline.ops[0].name = "attention.".repeat(10).into();
    for stage in &mut prediction.stages {
        stage.peak_cause = "cause ".repeat(40).into();
        stage.terms[0].formula = Words::Pieces(vec![WordsPiece::Text("1 + "); 90]);
    }
    for line in of(&prediction, true).lines() {
        assert!(line.width() <= 80, "{line}");
    }
}

#[test]
fn counts_and_rates_read_well() {
    assert_eq!(count(124_439_808), "124 M");
    assert_eq!(count(999_700_000), "1.00 B");
    assert_eq!(count(12), "12");
    assert_eq!(grouped(65_536.0), "65 536");
    assert_eq!(grouped(1_234_567.0), "1 234 567");
    assert_eq!(grouped(12.34), "12.3");
    assert_eq!(grouped(-123.0), "-123");
}

#[test]
fn what_splitting_costs_is_told_where_a_lone_card_is_a_measure() {
    let prediction = sample::two_stages();
    let told = |share: f64| {
        let scaling = Some(Fraction(share));
        let of = Report { scaling, ..Report::of("a", &prediction) };
        report(&of, false, 80).contains("scaling efficiency")
    };
    assert!(told(0.84) && told(1.0));
}
