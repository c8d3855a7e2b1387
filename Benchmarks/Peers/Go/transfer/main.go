// The same work as Sources/Transfer, by Go's net/http: one large body down or up. Prints one line of JSON.
// usage: transfer download URL [--memory | --to FILE] [--ca FILE]
//
//	transfer upload URL FILE [--ca FILE]
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

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

func checked(response *http.Response, err error) *http.Response {
	fail(err)
	if response.StatusCode != 200 {
		fail(fmt.Errorf("status %d", response.StatusCode))
	}
	return response
}

func download(client *http.Client, url, to string, memory bool) int64 {
	response := checked(client.Get(url))
	defer response.Body.Close()
	if memory {
		body, err := io.ReadAll(response.Body)
		fail(err)
		return int64(len(body))
	}
	var target io.Writer = io.Discard
	if to != "" {
		file, err := os.Create(to)
		fail(err)
		defer file.Close()
		target = file
	}
	received, err := io.Copy(target, response.Body)
	fail(err)
	return received
}

func upload(client *http.Client, url, path string) int64 {
	file, err := os.Open(path)
	fail(err)
	status, err := file.Stat()
	fail(err)
	request, err := http.NewRequest("PUT", url, file)
	fail(err)
	request.ContentLength = status.Size()
	response := checked(client.Do(request))
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	fail(err)
	return status.Size()
}

func main() {
	if len(os.Args) < 3 || os.Args[1] == "upload" && len(os.Args) < 4 {
		os.Exit(2)
	}
	isUpload, to, memory := os.Args[1] == "upload", "", false
	configuration := &tls.Config{}
	for option := 3; option < len(os.Args); option++ {
		switch os.Args[option] {
		case "--ca":
			option++
			authority, err := os.ReadFile(os.Args[option])
			fail(err)
			configuration.RootCAs = x509.NewCertPool()
			configuration.RootCAs.AppendCertsFromPEM(authority)
		case "--to":
			option++
			to = os.Args[option]
		case "--memory":
			memory = true
		}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: configuration, DisableCompression: true}}
	cpuBefore, before := cpu(), time.Now()
	var received, sent int64
	if isUpload {
		sent = upload(client, os.Args[2], os.Args[3])
	} else {
		received = download(client, os.Args[2], to, memory)
	}
	seconds, used := time.Since(before).Seconds(), cpu()-cpuBefore
	fmt.Printf("{\"received\": %d, \"sent\": %d, \"seconds\": %.3f, \"cpuMicroseconds\": %.0f, \"peakKilobytes\": %d}\n",
		received, sent, seconds, used, peak())
}
