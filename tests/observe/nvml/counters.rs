//! Performance counters (GPM).

use super::*;

fn with_counters(gpm: &str) -> String {
    format!("{H100}    gpm: {gpm}\n")
}

#[test]
fn counters_are_sampled_while_somebody_wants_them() {
    let text = with_counters("{ metrics: { 2: 91.5, 5: 44, 10: 39.25 } }");
    in_child("nvml::counters::counters_are_sampled_while_somebody_wants_them", &text, None, |scenario| {
        let requirements = SharedRequirements::nothing();
        let mut source = nvml(&requirements);
        let device = source.sample(now()).devices.remove(0);
        assert_eq!(device.sm_activity, Reading::not_read());
        assert_eq!(device.dram_bandwidth.kind(), Some(ReadingKind::UpperBound));
        assert_eq!(scenario.called_like("nvmlGpm"), 0);

        requirements.set(RequiredMetrics::everything());
        // There is nothing between a sample and none.
        let first = source.sample(now()).devices.remove(0);
        assert_eq!(first.sm_activity, Reading::Absent(Absence::TooShort));
        // The next one measures: no bound for one second that would stand in the history as one.
        assert_eq!(first.dram_bandwidth, Reading::Absent(Absence::TooShort));
        let device = sample_until(&mut source, "the second sample", |device| device.sm_activity.value().is_some());
        assert_eq!(device.sm_activity.value(), Some(&Fraction::from_percent(91.5)));
        assert_eq!(device.tensor_activity.value(), Some(&Fraction(0.44)));
        // A measured share of a peak that bus width and clock only suggest.
        assert_eq!(device.dram_bandwidth.kind(), Some(ReadingKind::Estimated));
        assert!((device.dram_bandwidth.value().unwrap().0 - 0.3925 * PEAK).abs() < 1.0);
        // Ticks that are too close for the driver repeat the figure, with its own time.
        let taken = at(&device.sm_activity).unwrap();
        let again = source.sample(taken.plus_millis(50)).devices.remove(0);
        assert_eq!(at(&again.sm_activity), Some(taken));

        requirements.set(RequiredMetrics::default());
        let device = source.sample(now()).devices.remove(0);
        assert_eq!(device.dram_bandwidth.kind(), Some(ReadingKind::UpperBound));
        assert_eq!(scenario.called("nvmlGpmSampleAlloc"), scenario.called("nvmlGpmSampleFree"));
        let before = scenario.called_like("nvmlGpm");
        drop(source.sample(now()));
        assert_eq!(scenario.called_like("nvmlGpm"), before);
    });
}

#[test]
fn one_counter_may_be_missing() {
    let text = with_counters("{ metrics: { 2: 90, 5: .nan }, errors: { 10: 3 } }");
    in_child("nvml::counters::one_counter_may_be_missing", &text, None, |_| {
        let mut source = nvml(&SharedRequirements::everything());
        let device = sample_until(&mut source, "the second sample", |device| device.sm_activity.value().is_some());
        assert!(matches!(device.tensor_activity, Reading::Absent(Absence::Failed(_))));
        // The DRAM counter is not there: back to the bound.
        assert_eq!(device.dram_bandwidth.kind(), Some(ReadingKind::UpperBound));
    });
}

#[test]
fn memory_outlives_failing_counters() {
    let gpm = "{ metrics: { 2: 90 } }\nfaults: [{ call: nvmlGpmSampleGet, error: 999 }]";
    in_child("nvml::counters::memory_outlives_failing_counters", &with_counters(gpm), None, |_| {
        let mut source = nvml(&SharedRequirements::everything());
        for _ in 0..3 {
            let device = source.sample(now()).devices.remove(0);
            assert!(device.memory.value().is_some());
            assert!(matches!(device.sm_activity, Reading::Absent(Absence::Failed(_))));
            assert_eq!(device.dram_bandwidth.kind(), Some(ReadingKind::UpperBound));
        }
    });
}

#[test]
fn counters_that_disturb_the_memory_reading_are_given_up() {
    // As on H100 with driver 535: after a sample, memory answers that the GPU is in use.
    let gpm = "{ metrics: { 2: 90 } }
faults: [{ call: nvmlDeviceGetMemoryInfo_v2, when: { from_call: 2, until_call: 3 }, error: 19 }]";
    in_child(
        "nvml::counters::counters_that_disturb_the_memory_reading_are_given_up",
        &with_counters(gpm),
        None,
        |scenario| {
            let mut source = nvml(&SharedRequirements::everything());
            assert!(source.sample(now()).devices[0].memory.value().is_some());
            assert!(matches!(source.sample(now()).devices[0].memory, Reading::Absent(Absence::Failed(_))));
            let device = source.sample(now()).devices.remove(0);
            assert!(device.memory.value().is_some());
            assert!(matches!(device.sm_activity, Reading::Absent(Absence::Failed(_))));
            assert_eq!(scenario.called("nvmlGpmSampleGet"), 1);
        },
    );
}

#[test]
fn a_card_split_by_mig_is_not_sampled() {
    let text = with_counters("{ metrics: { 2: 90 } }\n    mig: 1");
    in_child("nvml::counters::a_card_split_by_mig_is_not_sampled", &text, None, |scenario| {
        let mut source = nvml(&SharedRequirements::everything());
        assert_eq!(source.sample(now()).devices[0].sm_activity, Reading::Absent(Absence::NotSupported));
        assert_eq!(scenario.called("nvmlGpmSampleGet"), 0);
    });
}
