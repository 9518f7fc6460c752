use super::*;

#[test]
fn bytes_print_in_binary_multiples_with_three_figures() {
    assert_eq!(Bytes(0).to_string(), "0 B");
    assert_eq!(Bytes(1023).to_string(), "1023 B");
    assert_eq!(Bytes::from_mib(512).to_string(), "0.50 GiB");
    assert_eq!(Bytes::from_mib(20).to_string(), "20.0 MiB");
    // nvidia-smi's 81559 MiB of an H100: 81559 / 1024 = 79.647...
    assert_eq!(Bytes::from_mib(81_559).to_string(), "79.6 GiB");
    assert_eq!(Bytes(u64::MAX).round_up(512), Bytes(u64::MAX / 512 * 512 + 511));
}

#[test]
fn differences_keep_their_sign() {
    let difference = Bytes::from_mib(1024) - Bytes::from_mib(3072);
    assert_eq!(difference.to_string(), "-2.00 GiB");
    assert_eq!((Bytes::from_mib(3072) - Bytes::from_mib(1024)).to_string(), "+2.00 GiB");
}

#[test]
fn rates_print_in_decimal_multiples() {
    assert_eq!(BytesPerSec::from_giga(3352.0).to_string(), "3.35 TB/s");
    assert_eq!(FlopsPerSec::from_tera(989.4).to_string(), "989 TFLOP/s");
    assert_eq!(FlopsPerSec::from_tera(999.9).to_string(), "1.00 PFLOP/s");
}

#[test]
fn durations_read_as_people_say_them() {
    assert_eq!(Seconds(85e-6).to_string(), "85.0 µs");
    assert_eq!(Seconds(3.56).to_string(), "3.56 s");
    assert_eq!(Seconds(725.0).to_string(), "12 min 05 s");
    assert_eq!(Seconds(4320.0).to_string(), "1 h 12 min");
    assert_eq!(Seconds(14.0 * 86400.0 + 3.0 * 3600.0).to_string(), "14 d 03 h");
}

#[test]
fn the_ridge_of_an_h100_in_bf16() {
    // 989.4e12 / 3352e9 = 295.2 FLOP a byte.
    let ridge = FlopsPerSec::from_tera(989.4).ridge(BytesPerSec::from_giga(3352.0));
    assert_eq!(ridge.to_string(), "295 FLOP/B");
}

#[test]
fn numbers_are_grouped_by_thousands() {
    assert_eq!([0, 999, 1_840, 12_000, 1_234_567].map(grouped), ["0", "999", "1 840", "12 000", "1 234 567"]);
}

#[test]
fn what_has_passed_is_said_to_the_second() {
    let said = [41.4, 90.0, 125.0, 4_320.0].map(|time| Seconds(time).to_the_second());
    assert_eq!(said, ["41 s", "90 s", "2 min 05 s", "1 h 12 min"]);
}

#[test]
fn what_lies_ahead_is_said_roughly() {
    let times = [45.4, 89.0, 1_471.0, 5_399.0, 19_000.0, 200_000.0, 860_000.0, f64::INFINITY];
    let said = times.map(|time| Seconds(time).roughly());
    // 200 000 / 86 400 = 2.31, 860 000 / 86 400 = 9.95.
    assert_eq!(said, ["45 s", "89 s", "25 min", "90 min", "5 h", "2.3 d", "10 d", "–"]);
}
