// Upsert measures a bulk write: it creates a collection, writes random vectors, and deletes it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	accelerd "github.com/accelerd/accelerd/client/go"
)

func main() {
	target := flag.String("target", "", "address of the daemon")
	count := flag.Int("points", 100_000, "number of points")
	dimensions := flag.Int("dimensions", 256, "dimensions of a vector")
	batch := flag.Int("batch", 1000, "points of a batch")
	flag.Parse()
	if *count < 1 || *dimensions < 1 || *batch < 1 {
		log.Fatal("expected positive numbers of points, dimensions and points of a batch")
	}
	seconds, err := run(context.Background(), *target, *count, *dimensions, *batch)
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"points": *count, "seconds": seconds}); err != nil {
		log.Fatal(err)
	}
}

// run returns the seconds that the write took.
func run(ctx context.Context, target string, count, dimensions, batch int) (float64, error) {
	client, err := accelerd.New(target)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	batches := generate(count, dimensions, batch)
	name := fmt.Sprintf("bulk-go-%d", os.Getpid())
	collection, err := client.CreateCollection(ctx, name, &accelerd.CollectionOptions{Dimensions: dimensions})
	if err != nil {
		return 0, err
	}
	seconds, err := write(ctx, collection, batches)
	if deleted := collection.Delete(ctx); err == nil {
		err = deleted
	}
	return seconds, err
}

func write(ctx context.Context, collection *accelerd.Collection, batches []accelerd.Points) (float64, error) {
	start := time.Now()
	for _, err := range collection.UpsertMany(ctx, slices.Values(batches)) {
		if err != nil {
			return 0, err
		}
	}
	return time.Since(start).Seconds(), nil
}

func generate(count, dimensions, batch int) []accelerd.Points {
	var batches []accelerd.Points
	for first := 0; first < count; first += batch {
		rows := min(batch, count-first)
		values := make([]float32, rows*dimensions)
		for at := range values {
			values[at] = rand.Float32()*2 - 1
		}
		points := accelerd.Points{Vectors: &accelerd.Tensor{}}
		// The shape has as many elements as there are values.
		*points.Vectors, _ = accelerd.NewTensor([]int{rows, dimensions}, values)
		for row := range rows {
			points.IDs.Numbers = append(points.IDs.Numbers, uint64(first+row))
		}
		batches = append(batches, points)
	}
	return batches
}
