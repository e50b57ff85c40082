package wire

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
)

// SealSecrets encrypts the secrets of a box with AES-256-GCM, for its own volume: the volume may outlive the container,
// whose labels have the key.
func SealSecrets(key []byte, secrets map[string]string) ([]byte, error) {
	text, err := json.Marshal(secrets)
	if err != nil {
		return nil, err
	}
	gcm, err := secretsCipher(key)
	if err != nil {
		return nil, err
	}
	return gcm.Seal(nil, nil, text, nil), nil //nolint:gosec // Seal itself makes the nonce
}

// OpenSecrets decrypts the result of SealSecrets. It returns an error if a byte has changed, or for another key.
func OpenSecrets(key, sealed []byte) (secrets map[string]string, err error) {
	gcm, err := secretsCipher(key)
	if err != nil {
		return nil, err
	}
	text, err := gcm.Open(nil, nil, sealed, nil)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &secrets)
	return secrets, err
}

// secretsCipher derives a key of its own: the box's key signs calls.
func secretsCipher(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(mac(key, []byte("secrets")))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
