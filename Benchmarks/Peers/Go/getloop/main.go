// The same work as Sources/GetLoop, by Go's net/http: a goroutine for each request under way. Prints one line of JSON.
// usage: getloop URL CONNECTIONS COUNT [--ca FILE] [--no-reuse] [--no-sessions] [--concurrency N] [--latency] [--cold] [--abandon]
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

type tally struct {
	bytes, resumed int64
	latencies      []time.Duration
}

var latency, abandon bool

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func cpu() float64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Sec+usage.Stime.Sec)*1e6 + float64(usage.Utime.Usec+usage.Stime.Usec)
}

func peak() int {
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(status), "\n") {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "VmHWM:" {
			kilobytes, _ := strconv.Atoi(words[1])
			return kilobytes
		}
	}
	return 0
}

func get(client *http.Client, url string, seen *tally) {
	began := time.Time{}
	if latency {
		began = time.Now()
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	fail(err)
	response, err := client.Do(request)
	fail(err)
	defer response.Body.Close()
	if response.StatusCode != 200 {
		fail(fmt.Errorf("status %d", response.StatusCode))
	}
	if abandon {
		return
	}
	body, err := io.ReadAll(response.Body)
	fail(err)
	if len(body) == 0 {
		fail(io.ErrUnexpectedEOF)
	}
	if body[0] == 'r' {
		seen.resumed++
	}
	seen.bytes += int64(len(body))
	if latency {
		seen.latencies = append(seen.latencies, time.Since(began))
	}
}

func run(client *http.Client, url string, concurrency, count int) tally {
	var all sync.WaitGroup
	tallies := make([]tally, concurrency)
	for index := range tallies {
		share := count / concurrency
		if index < count%concurrency {
			share++
		}
		all.Add(1)
		go func(seen *tally) {
			defer all.Done()
			for ; share > 0; share-- {
				get(client, url, seen)
			}
		}(&tallies[index])
	}
	all.Wait()
	var total tally
	for _, seen := range tallies {
		total.bytes += seen.bytes
		total.resumed += seen.resumed
		total.latencies = append(total.latencies, seen.latencies...)
	}
	return total
}

func percentile(sorted []time.Duration, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	index := int(float64(len(sorted)) * share)
	if index >= len(sorted) {
		index = len(sorted) - 1
	}
	return float64(sorted[index].Nanoseconds()) / 1000
}

func main() {
	if len(os.Args) < 4 {
		os.Exit(2)
	}
	url := os.Args[1]
	connections, err := strconv.Atoi(os.Args[2])
	fail(err)
	count, err := strconv.Atoi(os.Args[3])
	fail(err)
	concurrency, cold := connections, false
	configuration := &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(64)}
	transport := &http.Transport{
		MaxIdleConns: connections, MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, TLSClientConfig: configuration,
	}
	for option := 4; option < len(os.Args); option++ {
		switch os.Args[option] {
		case "--ca":
			option++
			authority, err := os.ReadFile(os.Args[option])
			fail(err)
			configuration.RootCAs = x509.NewCertPool()
			configuration.RootCAs.AppendCertsFromPEM(authority)
		case "--no-reuse":
			transport.DisableKeepAlives = true
		case "--no-sessions":
			configuration.ClientSessionCache = nil
		case "--concurrency":
			option++
			concurrency, err = strconv.Atoi(os.Args[option])
			fail(err)
		case "--latency":
			latency = true
		case "--cold":
			cold = true
		case "--abandon":
			abandon = true
		}
	}
	client := &http.Client{Transport: transport}
	if warmUp := concurrency * 4; !cold {
		if count < warmUp {
			warmUp = count
		}
		run(client, url, concurrency, warmUp)
	}
	cpuBefore, before := cpu(), time.Now()
	seen := run(client, url, concurrency, count)
	seconds, used := time.Since(before).Seconds(), cpu()-cpuBefore
	sort.Slice(seen.latencies, func(a, b int) bool { return seen.latencies[a] < seen.latencies[b] })
	fmt.Printf("{\"requests\": %d, \"seconds\": %.3f, \"perSecond\": %.0f, \"cpuMicroseconds\": %.3f, \"bytes\": %d, \"resumed\": %d, "+
		"\"p50\": %.3f, \"p99\": %.3f, \"p999\": %.3f, \"peakKilobytes\": %d}\n",
		count, seconds, float64(count)/seconds, used/float64(count), seen.bytes, seen.resumed,
		percentile(seen.latencies, 0.5), percentile(seen.latencies, 0.99), percentile(seen.latencies, 0.999), peak())
}
