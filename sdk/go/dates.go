package conclave

import "time"

// Date is a calendar day in UTC.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// DateOf returns the day of an instant, in UTC.
func DateOf(instant time.Time) Date {
	year, month, day := instant.UTC().Date()
	return Date{year, month, day}
}

// Time returns the first instant of the day.
func (d Date) Time() time.Time { return time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC) }

// String returns the day as 2026-01-31.
func (d Date) String() string { return d.Time().Format(time.DateOnly) }

// MarshalText returns the day as 2026-01-31.
func (d Date) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses a day such as 2026-01-31.
func (d *Date) UnmarshalText(text []byte) error {
	instant, err := time.Parse(time.DateOnly, string(text))
	if err == nil {
		*d = DateOf(instant)
	}
	return err
}
