use fontdb::Database;
use proptest::prelude::*;

use super::*;

const TAG: LineSize = LineSize {
    height: 20,
    max_width: 600,
};

fn labels() -> Labels {
    Labels::new(Arc::new(Fonts::for_tests()))
}

/// Large letters: those of tags differ by single pixels.
const LARGE: LineSize = LineSize {
    height: 100,
    max_width: 2_000,
};

fn draw(text: &str) -> Arc<Label> {
    labels().get(text, LARGE)
}

/// How much of the columns from one part of the width to another is covered.
fn ink(label: &Label, columns: std::ops::Range<u32>) -> u64 {
    let is_inside = |at: &usize| columns.contains(&(u32::try_from(*at).unwrap() % label.width));
    label
        .coverage
        .iter()
        .enumerate()
        .filter(|(at, _)| is_inside(at))
        .map(|(_, ink)| u64::from(*ink))
        .sum()
}

#[test]
fn letters_of_many_scripts_are_drawn_and_what_no_font_has_is_a_question_mark() {
    let question_mark = draw("?");
    for letter in ["ễ", "Я", "Ω", "ש", "م", "’"] {
        let drawn = draw(letter);
        assert!(
            ink(&drawn, 0..drawn.width) > 500 && drawn != question_mark,
            "{letter}"
        );
    }
    for missing in ["王", "👍", "👩\u{200d}👩"] {
        assert_eq!(draw(missing), question_mark, "{missing}");
    }
    assert_eq!(draw("О王"), draw("О?"));
}

#[test]
fn marks_are_on_their_letters_however_they_are_written() {
    assert_eq!(draw("Nguy\u{1ec5}n"), draw("Nguye\u{302}\u{303}n"));
    assert_eq!(
        draw("я\u{303}").width,
        draw("я").width,
        "a mark has no room of its own"
    );
}

/// The columns inside a picture in which there is nothing.
fn gaps(label: &Label) -> usize {
    (0..label.width)
        .filter(|column| ink(label, *column..column + 1) < 50)
        .count()
}

fn is_near(one: u64, other: u64) -> bool {
    one.abs_diff(other) < other / 3
}

#[test]
fn arabic_letters_join_and_are_read_from_the_right() {
    let (joined, apart) = (draw("محمد"), draw("م\u{200c}ح\u{200c}م\u{200c}د"));
    assert!(
        gaps(&joined) + 4 < gaps(&apart),
        "{} and {}",
        gaps(&joined),
        gaps(&apart)
    );
    // Lam is high, and the first letter; beh is flat.
    let word = draw("لبب");
    let high: Vec<_> = (0..word.width * 50)
        .filter(|at| word.coverage[*at as usize] > 0)
        .map(|at| at % word.width)
        .collect();
    assert!(
        !high.is_empty() && high.iter().all(|column| *column > word.width / 2),
        "{high:?} of {}",
        word.width
    );
}

/// Proves S-57.
#[test]
fn names_with_both_directions_have_each_part_in_its_own() {
    // Yod is small, and after shin.
    let (shin, yod, hebrew, latin) = (draw("ש"), draw("י"), draw("שי"), draw("Wi"));
    let all = |label: &Label| ink(label, 0..label.width);
    assert!(
        is_near(ink(&hebrew, 0..yod.width), all(&yod)),
        "{} of {}",
        ink(&hebrew, 0..yod.width),
        all(&yod)
    );
    assert!(is_near(
        ink(&hebrew, hebrew.width - shin.width..hebrew.width),
        all(&shin)
    ));
    let mixed = draw("Wi שי");
    assert!(is_near(ink(&mixed, 0..latin.width), all(&latin)));
    assert!(is_near(
        ink(&mixed, mixed.width - hebrew.width..mixed.width),
        all(&hebrew)
    ));
    assert!(
        is_near(
            ink(&mixed, mixed.width - shin.width..mixed.width),
            all(&shin)
        ),
        "shin is at the right"
    );
    assert_eq!(
        draw("\u{202e}Wi\u{2066}\n"),
        latin,
        "nothing turns what follows"
    );
}

#[test]
fn a_name_that_is_too_long_ends_with_an_ellipsis() {
    let mut labels = labels();
    let size = LineSize {
        height: 20,
        max_width: 100,
    };
    let cut = labels.get(&"W".repeat(300), size);
    assert!((80..=100).contains(&cut.width), "{}", cut.width);
    let fitting = (1..300).map(|count| labels.get(&format!("{}…", "W".repeat(count)), TAG));
    assert_eq!(
        Some(cut),
        fitting.take_while(|label| label.width <= 100).last()
    );
}

#[test]
fn without_fonts_there_are_the_letters_that_are_built_in() {
    let mut labels = Labels::new(Arc::new(Fonts::new(Database::new())));
    let drawn = labels.get("Zoë", TAG);
    assert!(ink(&drawn, 0..drawn.width) > 1_000);
    assert_eq!(labels.get("Я", TAG), labels.get("?", TAG));
    assert!(labels.get(&"x".repeat(300), TAG).width <= TAG.max_width);
}

proptest! {
    /// Proves S-57.
    #[test]
    fn any_text_has_a_picture_within_its_bounds(text in "\\PC{0,40}", height in 8_u32..200, max_width in 0_u32..500) {
        let label = labels().get(&text, LineSize { height, max_width });
        prop_assert!(label.width <= max_width && label.height == height);
        prop_assert_eq!(label.coverage.len(), usize::try_from(label.width * label.height).unwrap());
    }
}
