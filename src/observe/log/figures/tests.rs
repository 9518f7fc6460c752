use super::*;

fn plain(line: &str) -> String {
    NumberStyle::default().plain(line).into_owned()
}

#[test]
fn exponents_are_part_of_their_number() {
    for (line, expected) in [
        ("Throughput: 1.15e+04 tokens/sec", "Throughput: 11500 tokens/sec"),
        ("tok/s=1.2e4", "tok/s=12000"),
        ("dt 9.17e2ms tok/sec 7.1e4", "dt 917ms tok/sec 71000"),
        ("time 9.1e-01s lr 1e-4 loss -2.5E-3", "time 0.91s lr 0.0001 loss -0.0025"),
        ("loss 1.376514E+01 | x 1e0 0e3", "loss 13.76514 | x 1 0"),
        // Parts of names and hashes.
        ("run-3e8ab12 model_1e5 v1e5 3e8f", "run-3e8ab12 model_1e5 v1e5 3e8f"),
        ("loss 1e400", "loss 1e400"),
    ] {
        assert_eq!(plain(line), expected, "{line}");
    }
}

#[test]
fn marks_between_digits_are_told_apart() {
    for (line, expected) in [
        ("step 1/100 | loss 1,05 | 1,5 s/it", "step 1/100 | loss 1.05 | 1.5 s/it"),
        ("loss 2,2100 time 2,0s", "loss 2.2100 time 2.0s"),
        ("loss 1.01 | 12 300 tokens/s", "loss 1.01 | 12300 tokens/s"),
        ("loss 1.01 | 12\u{202f}300 tokens/s | 1\u{a0}234\u{a0}567", "loss 1.01 | 12300 tokens/s | 1234567"),
        ("Step 1,039 of 1.000.000 loss 2.5", "Step 1,039 of 1000000 loss 2.5"),
        ("3,512 tokens/s | 1.25 s/step", "3512 tokens/s | 1.25 s/step"),
        ("1.234,5 and 1,234.5 and 1_000 and 1'000", "1234.5 and 1234.5 and 1000 and 1000"),
        // German throughout: a point parts thousands.
        ("Step 1.039/10.000 loss 2,31", "Step 1039/10000 loss 2.31"),
        // Nothing says which it is.
        ("step 5 loss 1,234", "step 5 loss 1,234"),
        // Both, each of which may be meant.
        ("loss 2,31 | 0.9s/it | 3,512 tokens/s", "loss 2.31 | 0.9s/it | 3,512 tokens/s"),
        ("loss 2.310", "loss 2.310"),
        ("0,123", "0.123"),
        ("tok/s 12 300 | speed: 1 250 tok/s", "tok/s 12300 | speed: 1250 tok/s"),
    ] {
        assert_eq!(plain(line), expected, "{line}");
    }
}

#[test]
fn what_is_no_figure_is_left() {
    for line in [
        "2026-11-29 12:00:01,123 INFO",
        "[2024-01-01 10:00:00,508] step=10, lr=[0.9,0.999], mom=[1,2]",
        "gpus 0,1 | CUDA_VISIBLE_DEVICES=0,1,2,3",
        "torch 2.5.1+cu124 at 10.0.0.1:29500",
        "[1,  2000] loss: 2.290",
        "step 12 300 tokens/s",
        "norm 1 310 ms/step",
        "step: 100 250 ms/step",
        "loss=2 310 ms/step",
        "12 300 2.1",
        "epoch 1 100/500",
        "{\"step\":1,\"sizes\":[1,5]}",
        "ETA 1 day, 12:50:10",
        "2.1,3.5,4",
    ] {
        assert_eq!(plain(line), line, "{line}");
    }
}

#[test]
fn a_line_without_decimals_is_read_as_the_run_s_other_lines() {
    let mut style = NumberStyle::default();
    assert_eq!(style.plain("step 1 loss 2,31"), "step 1 loss 2.31");
    style.keep();
    assert_eq!(style.plain("step 2 loss 2,310"), "step 2 loss 2.310");
    style.keep();
    assert_eq!(style.plain("step 3 loss 2.5"), "step 3 loss 2.5");
    style.keep();
    assert_eq!(style.plain("step 3 loss 2 | 2,310 tokens/s"), "step 3 loss 2 | 2310 tokens/s");
}
