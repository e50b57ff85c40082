package core

import "fmt"

// Cost is the lowest possible cost of a sandbox until now.
type Cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
	// PerHour is the cost of one more hour; 0 for a dead sandbox.
	PerHour float64 `json:"per_hour"`
}

// String returns the amount to the cent, or with more digits below one cent: "1.25 USD".
func (c Cost) String() string {
	if c.Amount != 0 && c.Amount < 0.01 {
		return fmt.Sprintf("%.4f %s", c.Amount, c.Currency)
	}
	return fmt.Sprintf("%.2f %s", c.Amount, c.Currency)
}
