//! Noise that depends on nothing but a seed and the time: asked twice for the same
//! moment, it answers the same, however often it was asked in between.

/// What a stream of noise is for: streams of one GPU do not move together.
#[derive(Debug, Clone, Copy)]
pub enum Channel {
    /// DRAM bandwidth.
    Bandwidth = 1,
    /// Matrix units.
    Tensor,
    /// SM activity.
    Activity,
    /// Power.
    Power,
    /// When the power cap bites.
    Cap,
    /// What a GPU is born with.
    Card,
    /// Host CPU.
    Host,
}

/// A family of noise streams.
#[derive(Debug, Clone, Copy)]
pub struct Noise {
    seed: u64,
}

impl Noise {
    /// The family of that seed.
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Evenly spread over -1 to 1, independent for each bucket.
    pub fn in_bucket(self, gpu: u32, channel: Channel, bucket: u64) -> f64 {
        let key = self.seed ^ (u64::from(gpu) << 48) ^ ((channel as u64) << 40) ^ bucket;
        // The top 53 bits fill a double's mantissa.
        (mix(key) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    /// Smooth over time: a new direction every `period` seconds, straight lines between.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn at(self, gpu: u32, channel: Channel, seconds: f64, period: f64) -> f64 {
        let position = (seconds / period).max(0.0);
        let (bucket, share) = (position.floor() as u64, position.fract());
        let (before, after) = (self.in_bucket(gpu, channel, bucket), self.in_bucket(gpu, channel, bucket + 1));
        before + (after - before) * share
    }
}

/// The finalizer of splitmix64: every bit of the key moves every bit of the result.
const fn mix(key: u64) -> u64 {
    let mut mixed = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_within_one_and_centres_on_zero() {
        let noise = Noise::new(7);
        let values: Vec<f64> = (0..4000).map(|bucket| noise.in_bucket(0, Channel::Power, bucket)).collect();
        assert!(values.iter().all(|value| (-1.0..=1.0).contains(value)));
        let mean = values.iter().sum::<f64>() / 4000.0;
        assert!(mean.abs() < 0.05, "mean {mean}");
    }

    #[test]
    fn streams_differ_and_each_repeats() {
        let noise = Noise::new(7);
        let at = |gpu, channel| noise.at(gpu, channel, 12.3, 4.0);
        assert!((at(0, Channel::Power) - at(1, Channel::Power)).abs() > 1e-6);
        assert!((at(0, Channel::Power) - at(0, Channel::Tensor)).abs() > 1e-6);
        assert!((at(0, Channel::Power) - at(0, Channel::Power)).abs() < f64::EPSILON);
    }
}
