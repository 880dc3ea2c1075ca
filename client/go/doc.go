// Package accelerd is the client of accelerd, a daemon that embeds, searches, parses, verifies and computes on GPUs or the CPU.
//
//	client, err := accelerd.New("localhost:7433")
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	embedded, err := client.Embed(ctx, []string{"parse a date"}, nil)
//
// A call's context has its deadline, which includes retries; a unary call without one gets the client's timeout. Errors are of type
// [*Error]. The generated stubs in accelerd/v1 reach all other calls through [Client.Conn], with the same token, deadline and retries.
package accelerd

//go:generate python3 ../generate.py go
