package session

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Validate checks the arguments of an operation, given by pointer, and fills
// in defaults. The rules stand in the field tags, which the tools' schemas are
// made from too: minimum, maximum, minLength, maxLength (bytes) and tooLong
// (what to do then), enum (comma separated), default. A zero value of an
// optional field (omitempty) means "not given". What tags cannot say is in the
// type's own Validate method.
//
// Errors are *Error with InvalidArgument, naming the field and the fix.
func Validate(in any) error {
	v := reflect.ValueOf(in).Elem()
	for i := range v.NumField() {
		if err := checkField(v.Type().Field(i), v.Field(i)); err != nil {
			return err
		}
	}
	if c, ok := reflect.TypeAssert[interface{ Validate() error }](v); ok {
		return c.Validate()
	}
	return nil
}

func checkField(f reflect.StructField, v reflect.Value) error {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	optional := strings.Contains(options, "omitempty")
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil // a pointer's default is up to the type, which keeps nil apart from zero
		}
		v = v.Elem()
	} else if optional && v.IsZero() {
		setDefault(v, f.Tag.Get("default"))
		return nil
	}
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		return checkRange(name, f.Tag, float64(v.Int()))
	case reflect.Float64:
		return checkRange(name, f.Tag, v.Float())
	case reflect.String:
		return checkText(name, f.Tag, v.String(), optional)
	default:
		return nil
	}
}

func setDefault(v reflect.Value, text string) {
	if text == "" {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		mustTag(err)
		v.SetInt(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		mustTag(err)
		v.SetFloat(n)
	default:
		panic(fmt.Sprintf("session: default %q on a %s", text, v.Kind()))
	}
}

func checkRange(name string, tag reflect.StructTag, n float64) error {
	if s := tag.Get("minimum"); s != "" {
		least, err := strconv.ParseFloat(s, 64)
		mustTag(err)
		if n < least {
			return Errorf(InvalidArgument, "%s: %v is below the minimum of %s", name, n, s)
		}
	}
	if s := tag.Get("maximum"); s != "" {
		most, err := strconv.ParseFloat(s, 64)
		mustTag(err)
		if n > most {
			return Errorf(InvalidArgument, "%s: %v is above the maximum of %s", name, strconv.FormatFloat(n, 'f', -1, 64), s)
		}
	}
	return nil
}

func checkText(name string, tag reflect.StructTag, text string, optional bool) error {
	if s := tag.Get("minLength"); s != "" && text == "" && !optional {
		return Errorf(InvalidArgument, "%s: must not be empty", name)
	}
	if s := tag.Get("maxLength"); s != "" {
		most, err := strconv.Atoi(s)
		mustTag(err)
		if len(text) > most {
			message := fmt.Sprintf("%s: %d bytes; at most %d are taken", name, len(text), most)
			if remedy := tag.Get("tooLong"); remedy != "" {
				message += ": " + remedy
			}
			return Errorf(InvalidArgument, "%s", message)
		}
	}
	if s := tag.Get("enum"); s != "" && !strings.Contains(","+s+",", ","+text+",") {
		return Errorf(InvalidArgument, "%s: %q is not one of %s", name, clip(text, 64), strings.ReplaceAll(s, ",", ", "))
	}
	if !utf8.ValidString(text) {
		return Errorf(InvalidArgument, "%s: not valid UTF-8", name)
	}
	return nil
}

// mustTag panics on a tag that does not parse: a fault in this package, which
// its tests find by validating a value of every type.
func mustTag(err error) {
	if err != nil {
		panic("session: bad field tag: " + err.Error())
	}
}

// Decode gives the bytes of text in an encoding ("" is utf-8). field names the
// argument in the error.
func Decode(field, text, encoding string) ([]byte, error) {
	if encoding != Base64 {
		return []byte(text), nil
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, Errorf(InvalidArgument, "%s: not valid base64 (standard alphabet, padded)", field)
	}
	return b, nil
}

func noNUL(field, text string) error {
	if strings.ContainsRune(text, 0) {
		return Errorf(InvalidArgument, "%s: must not contain a NUL character", field)
	}
	return nil
}

// checkLabel keeps control characters out of what operators read.
func checkLabel(field, text string) error {
	for _, r := range text {
		if r < ' ' || r == 0x7f {
			return Errorf(InvalidArgument, "%s: must not contain control characters", field)
		}
	}
	return nil
}
